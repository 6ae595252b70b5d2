#include "daemon/sharing/burst_turns.h"

#include <algorithm>
#include <utility>

namespace harmonaize::daemon {
namespace {

/// Silence, in seconds, after which a job is forgotten; some jobs pause for long.
constexpr double kForgottenSeconds = 30;
/// Number of iterations for which a told rhythm holds, if that is more than kKeptSeconds.
constexpr double kIterationsKept = 3;
/// Shortest time, in seconds, for which a told rhythm holds.
constexpr double kKeptSeconds = 0.5;
/// Number of bursts by which it is known what one of them takes.
constexpr double kWindowBursts = 3;
/// A job whose predicted pause fraction, alone on its links, is below this counts as always
/// sending. The observed pause would mislead: a job that has little of a link would never seem to
/// pause, and never get a turn in which it has more.
constexpr double kLeastPause = 0.05;
/// Shortest burst, in seconds, that asks for a turn: asking costs a round trip.
constexpr double kLeastBurst = 0.01;
/// Shortest burst that asks for a turn, as a multiple of the time that the controller is busy with
/// other things before it answers.
constexpr double kAnswersInBurst = 10;
/// Fraction of an edge's capacity below which a burst does not matter there.
constexpr double kLeastPart = 0.05;
/// Sum of two bursts' fractions of an edge's capacity up to which they do not collide there.
constexpr double kFull = 1.05;
/// Factor by which a burst may take longer than expected: the expectation is not exact, and jobs
/// that are alike shall take turns.
constexpr double kSlack = 1.25;
/// Multiple of its expected time after which a burst is not waited for any more.
constexpr double kOverdue = 2;
/// Multiple of the bytes of a measured burst up to which a burst is like those before it.
constexpr double kLikeOthers = 1.5;
/// Seconds by which a host may count bytes before the job's leader tells that a burst has begun:
/// two intervals in which daemons tell.
constexpr double kSkewSeconds = 0.2;
/// Number of jobs of a tenant at most that take turns. The others begin when they like. It bounds
/// the time of the engine that the search for neighbours takes, which grows with its square.
constexpr int kMostOfTenant = 64;
/// Interval, in seconds, at which Settle looks at the jobs.
constexpr double kIntervalSeconds = 0.5;

}  // namespace

void BurstTurns::TakeSent(const JobId& id, const FabricRail& rail, const Edges& edges,
                          const TrafficJob& told, double now_seconds) {
  Job& job = jobs_[id];
  job.weight = told.weight;
  job.seen_seconds = now_seconds;
  const auto [place, is_first] = job.sent.try_emplace(rail);
  Sent& sent = place->second;
  sent.edges = edges;
  if (!is_first) {
    const bool went_on = told.sent_bytes >= sent.counted;
    const auto bytes = static_cast<double>(told.sent_bytes - (went_on ? sent.counted : 0));
    sent.in_window += bytes;
    job.in_burst += bytes;
  }
  sent.counted = told.sent_bytes;
}

void BurstTurns::TakeRhythm(const TrafficRhythm& rhythm, double now_seconds) {
  const auto found = jobs_.find({rhythm.user, rhythm.communicator});
  if (found == jobs_.end()) return;
  Job& job = found->second;
  const bool goes_on = HasRhythm(job, now_seconds) && rhythm.bursts >= job.rhythm.bursts;
  if (rhythm.bursts != job.rhythm.bursts) job.in_burst = 0;
  job.rhythm = rhythm;
  job.told_seconds = now_seconds;
  if (!goes_on) BeginWindow(&job);
}

// ---------------------------------------------------------------------------------------------
// What bursts take

bool BurstTurns::HasRhythm(const Job& job, double now_seconds) {
  const double kept = std::max(kKeptSeconds, kIterationsKept * job.rhythm.iteration_seconds);
  return job.rhythm.bursts > 0 && now_seconds - job.told_seconds <= kept;
}

std::optional<BurstTurns::Mean> BurstTurns::MeanOf(const JobId& id, const FabricRail& rail) const {
  const auto job = jobs_.find(id);
  if (job == jobs_.end() || job->second.alone_seconds == 0) return {};
  if (ExceedsBurst(job->second)) return {};
  const auto sent = job->second.sent.find(rail);
  if (sent == job->second.sent.end() || sent->second.mean == 0) return {};
  const TrafficRhythm& rhythm = job->second.rhythm;
  return Mean{sent->second.mean, std::min(rhythm.burst_seconds / rhythm.iteration_seconds, 1.0)};
}

// Returns the number of bursts, with the part of the current one that has passed.
double BurstTurns::BurstsOf(const Job& job) {
  const double part = job.rhythm.begun_seconds / std::max(job.rhythm.burst_seconds, 1e-9);
  return static_cast<double>(job.rhythm.bursts) + std::min(part, 1.0);
}

// A burst that does not end would otherwise go on under the mean of the bursts before it.
bool BurstTurns::ExceedsBurst(const Job& job) {
  const double skew = job.burst_bytes / job.rhythm.iteration_seconds * kSkewSeconds;
  return job.in_burst > kLikeOthers * (job.burst_bytes + skew);
}

void BurstTurns::BeginWindow(Job* job) {
  for (auto& [rail, sent] : job->sent) sent.in_window = 0;
  job->window_begun = BurstsOf(*job);
}

void BurstTurns::Settle(const Capacity& capacity, double answer_seconds, double now_seconds) {
  if (now_seconds < next_seconds_) return;
  const double least_burst = std::max(kLeastBurst, kAnswersInBurst * answer_seconds);
  next_seconds_ = now_seconds + kIntervalSeconds;
  const size_t forgotten = std::erase_if(jobs_, [now_seconds](const auto& one) {
    return now_seconds - one.second.seen_seconds > kForgottenSeconds;
  });
  std::erase_if(turned_seconds_, [now_seconds](const auto& one) {
    return now_seconds - one.second > kForgottenSeconds;
  });
  bool changed = forgotten > 0;
  for (auto& [id, job] : jobs_) {
    if (HasRhythm(job, now_seconds)) {
      if (BurstsOf(job) - job.window_begun < kWindowBursts) continue;
      Measure(&job, capacity, least_burst);
      BeginWindow(&job);
    } else {
      if (job.alone_seconds == 0) continue;
      job.alone_seconds = 0;
    }
    changed = true;
  }
  if (changed) FindNeighbours();
}

// Finds out what a burst takes, by the bytes of the window. A burst waits for the edge that is busy
// for longest.
void BurstTurns::Measure(Job* job, const Capacity& capacity, double least_burst) {
  const double bursts = BurstsOf(*job) - job->window_begun;
  job->parts.clear();
  job->burst_bytes = 0;
  for (auto& [rail, sent] : job->sent) {
    job->burst_bytes += sent.in_window / bursts;
    sent.mean = sent.in_window / bursts / job->rhythm.iteration_seconds;
    for (const CrossedEdge& crossed : *sent.edges) {
      const double seconds = crossed.part * sent.in_window / capacity(crossed.edge);
      job->parts[crossed.edge] += seconds / bursts;
    }
  }
  double longest = 0;
  for (const auto& [edge, seconds] : job->parts) longest = std::max(longest, seconds);
  const TrafficRhythm& rhythm = job->rhythm;
  job->alone_seconds = std::min(longest, rhythm.burst_seconds);
  const bool pauses =
      rhythm.pause_seconds >= kLeastPause * (job->alone_seconds + rhythm.pause_seconds);
  if (!pauses || job->alone_seconds < least_burst) job->alone_seconds = 0;
  for (auto& [edge, seconds] : job->parts) seconds /= longest;
  std::erase_if(job->parts, [](const auto& one) { return one.second < kLeastPart; });
}

void BurstTurns::FindNeighbours() {
  std::map<int, std::vector<Jobs::iterator>> users;  // by edge
  std::map<uint32_t, int> taking_turns;              // by tenant
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    job->second.neighbours.clear();
    if (job->second.alone_seconds == 0) continue;
    if (++taking_turns[job->first.tenant] > kMostOfTenant) continue;
    for (const auto& [edge, part] : job->second.parts) users[edge].push_back(job);
  }
  for (const auto& [edge, jobs] : users) {
    for (const Jobs::iterator one : jobs) {
      for (const Jobs::iterator other : jobs) {
        const bool collide = one->second.parts[edge] + other->second.parts[edge] > kFull;
        if (one != other && collide) one->second.neighbours.insert(other->first);
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Turns

// One burst of each other tenant may come before it, and all of its own tenant's.
double BurstTurns::LongestWait(const JobId& id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return 0;
  double own = 0;
  std::map<uint32_t, double> others;  // the longest burst of each tenant
  for (const JobId& neighbour : found->second.neighbours) {
    const double seconds = kSlack * jobs_.at(neighbour).alone_seconds;
    if (neighbour.tenant == id.tenant) {
      own += seconds;
    } else {
      others[neighbour.tenant] = std::max(others[neighbour.tenant], seconds);
    }
  }
  double longest = own;
  for (const auto& [tenant, seconds] : others) longest += seconds;
  return std::min(longest, JobWait::kLongestSeconds);
}

std::vector<BurstTurns::Turn> BurstTurns::Take(transport::PeerId leader,
                                               const BurstMessage& message, double now_seconds) {
  const JobId id{message.user, message.communicator};
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    if (message.ended) return {};
    return {{leader, message.communicator, message.burst}};  // forgotten: it need not wait
  }
  Job& job = found->second;
  if (message.ended) {
    if (job.leader != leader || job.burst != message.burst) return {};
    job.state = State::kComputes;
    return GiveTurns(job.neighbours, now_seconds);
  }
  std::vector<Turn> turns;
  if (job.state == State::kSends) {  // which has ended before it seemed to
    job.state = State::kComputes;
    turns = GiveTurns(job.neighbours, now_seconds);
  }
  job.state = State::kWaits;
  job.leader = leader;
  job.burst = message.burst;
  job.since_seconds = now_seconds;
  for (const Turn& turn : GiveTurns({id}, now_seconds)) turns.push_back(turn);
  job.waits += job.state == State::kWaits ? 1 : 0;
  return turns;
}

std::vector<BurstTurns::Turn> BurstTurns::Forget(transport::PeerId leader, double now_seconds) {
  std::vector<Turn> turns;
  for (auto& [id, job] : jobs_) {
    if (job.leader != leader || job.state == State::kComputes) continue;
    job.state = State::kComputes;
    for (Turn& turn : GiveTurns(job.neighbours, now_seconds)) turns.push_back(turn);
  }
  return turns;
}

// Returns whether a neighbour that sends would end before this job, even if they shared the link
// from now on.
bool BurstTurns::MustWait(const Job& job, double now_seconds) const {
  return std::any_of(job.neighbours.begin(), job.neighbours.end(), [&](const JobId& id) {
    const Job& other = jobs_.at(id);
    if (other.state != State::kSends) return false;
    const double passed = now_seconds - other.since_seconds;
    if (passed > kOverdue * other.alone_seconds) return false;
    const double left = std::max(other.alone_seconds - passed, 0.0);
    return left * job.weight <= kSlack * job.alone_seconds * other.weight;
  });
}

// Gives turns to those of these jobs that wait and may begin. The tenant that has had no turn for
// longest comes first, and of its jobs the one that has waited for longest.
std::vector<BurstTurns::Turn> BurstTurns::GiveTurns(const std::set<JobId>& jobs,
                                                    double now_seconds) {
  std::vector<Jobs::iterator> waiting;
  for (const JobId& id : jobs) {
    const auto job = jobs_.find(id);
    if (job->second.state == State::kWaits) waiting.push_back(job);
  }
  const auto order = [this](Jobs::iterator one) {
    const auto turned = turned_seconds_.find(one->first.tenant);
    return std::pair(turned == turned_seconds_.end() ? 0 : turned->second,
                     one->second.since_seconds);
  };
  std::sort(waiting.begin(), waiting.end(),
            [&](Jobs::iterator a, Jobs::iterator b) { return order(a) < order(b); });
  std::vector<Turn> turns;
  for (const Jobs::iterator one : waiting) {
    Job& job = one->second;
    if (MustWait(job, now_seconds)) continue;
    if (job.since_seconds < now_seconds) turned_seconds_[one->first.tenant] = now_seconds;
    job.state = State::kSends;
    job.since_seconds = now_seconds;
    turns.push_back({job.leader, one->first.job, job.burst});
  }
  return turns;
}

uint64_t BurstTurns::WaitsOf(const JobId& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? 0 : found->second.waits;
}

}  // namespace harmonaize::daemon
