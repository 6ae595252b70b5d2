#include "daemon/sharing/controller.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "src/base/thread_clock.h"
#include "src/planner/edge_loads.h"

namespace harmonaize::daemon {
namespace {

/// Age, in seconds, up to which a report counts: a host that has said nothing for longer sends
/// nothing.
constexpr double kRecentSeconds = 0.25;
/// Age, in seconds, after which a report, or a job, is forgotten.
constexpr double kForgottenSeconds = 2;
/// Time, in seconds, after which shares that have not changed are told again: a daemon that hears
/// nothing goes its own way.
constexpr double kRepeatSeconds = 0.4;
/// Most ways that are looked at, of those among which routers choose.
constexpr size_t kMostWays = 64;
/// Interval, in seconds, at which the controller looks at what is left for a job's plans.
constexpr double kLeftSeconds = 0.3;
/// Number of jobs at most for which it looks at that at once: one look takes some microseconds of
/// the engine's thread for each edge.
constexpr size_t kMostLooks = 64;
/// Time, in seconds, for which no other job's plans are told anything new of a link: after a job
/// has begun to use the link, or has been told that it has more or less of it. The effect has to be
/// seen first.
constexpr double kSettleSeconds = 1;
/// The controller rests for this many times as long as it has worked: a cluster may be large.
constexpr double kPausesPerSpent = 20;
/// Number of rails with kept ways from which on those that no job uses are dropped.
constexpr size_t kMostKept = 1 << 15;
/// Relative difference up to which limits are the same.
constexpr double kNoise = 0.03;

bool Alike(double one, double other) {
  return std::abs(one - other) <= kNoise * std::max(one, other);
}

bool Alike(const RailShare& one, const RailShare& other) {
  return std::tie(one.peer, one.rail, one.user, one.owner) ==
             std::tie(other.peer, other.rail, other.user, other.owner) &&
         Alike(one.bytes_per_second, other.bytes_per_second);
}

bool Alike(const FloorWord& one, const FloorWord& other) {
  return std::tie(one.communicator, one.floor, one.refused, one.tenant_bound, one.missed) ==
         std::tie(other.communicator, other.floor, other.refused, other.tenant_bound, other.missed);
}

bool Alike(const SharesMessage& one, const SharesMessage& other) {
  return one.links == other.links &&
         std::equal(one.limits.begin(), one.limits.end(), other.limits.begin(), other.limits.end(),
                    [](const RailShare& a, const RailShare& b) { return Alike(a, b); }) &&
         std::equal(one.jobs.begin(), one.jobs.end(), other.jobs.begin(), other.jobs.end(),
                    [](const JobRates& a, const JobRates& b) {
                      return a.communicator == b.communicator && a.rates == b.rates;
                    }) &&
         std::equal(one.floors.begin(), one.floors.end(), other.floors.begin(), other.floors.end(),
                    [](const FloorWord& a, const FloorWord& b) { return Alike(a, b); }) &&
         std::equal(
             one.waits.begin(), one.waits.end(), other.waits.begin(), other.waits.end(),
             [](const JobWait& a, const JobWait& b) { return a.communicator == b.communicator; });
}

/// Returns the terms in a message, by job.
std::map<JobId, LinkTerms> TermsIn(const TrafficMessage& traffic) {
  std::map<JobId, LinkTerms> terms;
  for (const TrafficTerms& one : traffic.terms) {
    terms[{one.user, one.communicator}] = {one.owner, one.priority,     one.floor,
                                           one.cap,   one.tenant_floor, one.tenant_cap};
  }
  return terms;
}

}  // namespace

void Controller::Take(transport::PeerId peer, const TrafficMessage& traffic, double now_seconds) {
  if (traffic.host >= model_->hosts()) return;
  Report& report = reports_[peer];
  report.host = traffic.host;
  report.at_seconds = now_seconds;
  report.homes = traffic.homes;
  report.flows.clear();
  report.rhythms.clear();
  report.floors.clear();
  const std::map<JobId, LinkTerms> terms = TermsIn(traffic);
  for (const TrafficFlow& flow : traffic.flows) {
    const FabricRail rail{traffic.host, flow.peer, flow.rail};
    if (rail.from == rail.to || flow.astray || flow.jobs.empty()) continue;
    const Edges edges = EdgesOf(rail);
    if (edges->empty()) continue;
    for (const TrafficJob& job : flow.jobs) {
      const JobId id{job.user, job.communicator};
      JobFlow part{rail, id, job.weight, edges, job.bytes_per_second, 1, flow.busy};
      if (const auto found = terms.find(id); found != terms.end()) part.terms = found->second;
      NoteJob(part, now_seconds);
      report.flows.push_back(std::move(part));
      turns_.TakeSent(id, rail, edges, job, now_seconds);
    }
  }
  for (const auto& [id, one] : terms) {
    if (one.floor > 0 && jobs_.contains(id)) report.floors.push_back(id);
  }
  for (const TrafficRhythm& rhythm : traffic.rhythms) {
    turns_.TakeRhythm(rhythm, now_seconds);
    report.rhythms.push_back({rhythm.user, rhythm.communicator});
  }
}

// Notes a job, and the edges that it could use: between two hosts these are the edges of all rails.
void Controller::NoteJob(const JobFlow& flow, double now_seconds) {
  const FabricRail& rail = flow.rail;
  Job& job = jobs_[flow.job];
  job.weight = flow.weight;
  // The owner may have other jobs: BookFloors takes the floor for them again.
  const bool has_left = flow.terms.floor <= 0 || flow.terms.owner != job.terms.owner;
  if (job.terms.floor > 0 && has_left) floors_.Drop({flow.job.tenant, job.terms.owner});
  job.terms = flow.terms;
  job.seen_seconds = now_seconds;
  if (!job.pairs.emplace(rail.from, rail.to).second) return;
  for (size_t other = 0; other < rails_.rails(); ++other) {
    const Edges edges = EdgesOf({rail.from, rail.to, other});
    for (const CrossedEdge& crossed : *edges) {
      job.edges.insert(crossed.edge);
      Unsettle(crossed.edge, now_seconds);
    }
  }
}

// Has the floors of jobs that send promised, on all edges that they could use.
void Controller::BookFloors(double now_seconds) {
  for (auto& [id, job] : jobs_) {
    if (job.terms.floor <= 0) continue;
    const FloorOwner owner{id.tenant, job.terms.owner};
    const GrantedFloor granted{job.terms.floor, job.terms.tenant_floor};
    const bool known = floors_.Note(owner, granted, now_seconds);
    if (known && job.booked_edges == job.edges.size()) continue;
    job.booked_edges = job.edges.size();
    floors_.Take(owner, granted, job.edges, now_seconds);
  }
  floors_.Settle(now_seconds);
}

void Controller::Unsettle(int edge, double now_seconds) {
  const auto index = static_cast<size_t>(edge);
  if (index >= unsettled_until_.size()) unsettled_until_.resize(index + 1);
  unsettled_until_[index] = now_seconds + kSettleSeconds;
}

// Returns the edges of a rail's ways; none for a rail that does not exist. Ways are kept, at least
// those of rails that a job uses.
Controller::Edges Controller::EdgesOf(const FabricRail& rail) {
  const auto known = edges_.find(rail);
  if (known != edges_.end()) return known->second;
  auto edges = std::make_shared<std::vector<CrossedEdge>>();
  const std::optional<Lane> lane = rails_.LaneOf(rail.from, rail.to, rail.rail);
  if (!lane.has_value()) return edges;
  const FabricModel::CertainRoute certain = model_->CertainRouteOf(rail.from, rail.to, *lane);
  if (certain.whole) {
    for (const int edge : certain.edges) edges->push_back({edge, 1});
  } else {
    std::map<int, double> parts;
    for (const auto& [route, part] : SpreadRoutes(*model_, rail.from, rail.to, *lane, kMostWays)) {
      for (const int edge : route) parts[edge] += part;
    }
    for (const auto& [edge, part] : parts) edges->push_back({edge, part});
  }
  if (edges_.size() >= kMostKept) {
    std::erase_if(edges_, [](const auto& one) { return one.second.use_count() == 1; });
  }
  edges_.emplace(rail, edges);
  return edges;
}

std::vector<BurstTurns::Turn> Controller::Forget(transport::PeerId peer, double now_seconds) {
  reports_.erase(peer);
  return turns_.Forget(peer, now_seconds);
}

std::optional<transport::PeerId> Controller::PeerAt(int fabric_host) const {
  const auto found = std::find_if(reports_.begin(), reports_.end(),
                                  [=](const auto& one) { return one.second.host == fabric_host; });
  if (found == reports_.end()) return {};
  return found->first;
}

std::vector<std::pair<transport::PeerId, SharesMessage>> Controller::Settle(const LinkState& links,
                                                                            double now_seconds) {
  std::vector<std::pair<transport::PeerId, SharesMessage>> told;
  if (now_seconds < next_settle_seconds_) return told;
  const int64_t begun_ns = ThreadNanoseconds();
  std::erase_if(reports_, [now_seconds](const auto& one) {
    return now_seconds - one.second.at_seconds > kForgottenSeconds;
  });
  std::erase_if(jobs_, [now_seconds](const auto& one) {
    return now_seconds - one.second.seen_seconds > kForgottenSeconds;
  });
  tenants_of_.clear();
  for (const auto& [id, job] : jobs_) tenants_of_.emplace(id.job, id.tenant);
  BookFloors(now_seconds);
  TakeShares(links, now_seconds);
  const auto usable = [&](int edge) { return LinkShares::kUsable * CapacityOf(edge, links); };
  turns_.Settle(usable, spent_seconds_, now_seconds);
  TakeLeft(now_seconds);
  std::map<int, std::vector<RailShare>> limits = LimitsByHost();
  for (auto& [peer, report] : reports_) {
    if (now_seconds - report.at_seconds > kRecentSeconds) continue;
    SharesMessage message = SharesFor(report, links, limits[report.host]);
    const bool fresh = report.told.has_value() && Alike(message, *report.told) &&
                       now_seconds - report.told_seconds < kRepeatSeconds;
    if (fresh) continue;
    report.told = message;
    report.told_seconds = now_seconds;
    told.emplace_back(peer, std::move(message));
  }
  spent_seconds_ = static_cast<double>(ThreadNanoseconds() - begun_ns) * 1e-9;
  next_settle_seconds_ =
      now_seconds + std::max(0.9 * LinkState::kIntervalSeconds, kPausesPerSpent * spent_seconds_);
  return told;
}

void Controller::TakeShares(const LinkState& links, double now_seconds) {
  std::vector<JobFlow> flows;
  for (const auto& [peer, report] : reports_) {
    if (now_seconds - report.at_seconds > kRecentSeconds) continue;
    flows.insert(flows.end(), report.flows.begin(), report.flows.end());
  }
  for (JobFlow& flow : flows) {
    const FloorOwner owner{flow.job.tenant, flow.terms.owner};
    if (flow.terms.floor > 0 && !floors_.AnswerFor(owner).holds) flow.terms.floor = 0;
    const std::optional<BurstTurns::Mean> mean = turns_.MeanOf(flow.job, flow.rail);
    if (!mean.has_value()) continue;
    flow.bytes_per_second = mean->bytes_per_second;
    flow.sending = mean->sending;
  }
  shares_.Take(
      flows, [&](int edge) { return CapacityOf(edge, links); }, now_seconds);
  watch_.Take(shares_.floors(), now_seconds);
}

double Controller::CapacityOf(int edge, const LinkState& links) const {
  const auto found =
      std::lower_bound(links.rates().begin(), links.rates().end(), edge,
                       [](const EdgeRate& one, int wanted) { return one.edge < wanted; });
  const bool differs = found != links.rates().end() && found->edge == edge;
  return differs ? found->bytes_per_second : model_->BytesPerSecond(edge);
}

// Returns the limits of each host.
std::map<int, std::vector<RailShare>> Controller::LimitsByHost() const {
  std::map<int, std::vector<RailShare>> by_host;
  for (const ShareLimit& limit : shares_.Limits()) {
    const FabricRail& rail = limit.rail;
    by_host[rail.from].push_back(
        {rail.to, rail.rail, limit.tenant, limit.owner, limit.bytes_per_second});
  }
  return by_host;
}

bool Controller::IsSettled(const std::set<int>& edges, double now_seconds) const {
  return std::all_of(edges.begin(), edges.end(), [&](int edge) {
    return unsettled_until_[static_cast<size_t>(edge)] <= now_seconds;
  });
}

// Tells jobs one after the other what the others leave. If all were told at once, all would go to
// where no job was. The job that was told last waits longest. Of many jobs those come first that
// were not looked at for longest.
void Controller::TakeLeft(double now_seconds) {
  struct Due {
    double looked_seconds = 0;
    double since_seconds = 0;
    JobId id;
  };
  std::vector<Due> due;
  for (const auto& [id, job] : jobs_) {
    const bool is_due = now_seconds - job.left_seconds >= kLeftSeconds;
    if (is_due) due.push_back({job.left_seconds, job.left_since_seconds, id});
  }
  if (due.size() > kMostLooks) {
    std::nth_element(
        due.begin(), due.begin() + kMostLooks, due.end(),
        [](const Due& a, const Due& b) { return a.looked_seconds < b.looked_seconds; });
    due.resize(kMostLooks);
  }
  std::sort(due.begin(), due.end(), [](const Due& a, const Due& b) {
    return std::tie(a.since_seconds, a.id) < std::tie(b.since_seconds, b.id);
  });
  for (const auto& [looked_seconds, since_seconds, id] : due) {
    Job& job = jobs_[id];
    if (!IsSettled(job.edges, now_seconds)) continue;
    job.left_seconds = now_seconds;
    EdgeRates left = LeftFor(id, job);
    if (left == job.left) continue;
    job.left = std::move(left);
    job.left_since_seconds = now_seconds;
    for (const int edge : job.edges) Unsettle(edge, now_seconds);
  }
}

EdgeRates Controller::LeftFor(const JobId& id, const Job& job) {
  EdgeRates rates;
  const std::vector<int> edges(job.edges.begin(), job.edges.end());
  for (const auto& [edge, left] : shares_.AvailableTo(id, job.weight, job.terms, edges)) {
    rates.push_back({edge, left});
  }
  return rates;
}

SharesMessage Controller::SharesFor(const Report& report, const LinkState& links,
                                    const std::vector<RailShare>& limits) {
  SharesMessage message{.fabric = 0, .links = links.rates(), .limits = limits};
  std::set<JobId> floors(report.floors.begin(), report.floors.end());
  for (const uint64_t home : report.homes) {
    const auto [first, last] = tenants_of_.equal_range(home);
    for (auto tenant = first; tenant != last; ++tenant) {
      const JobId id{tenant->second, home};
      const Job& job = jobs_.at(id);
      if (!job.left.empty()) message.jobs.push_back({home, job.left});
      if (job.terms.floor > 0) floors.insert(id);
    }
  }
  for (const JobId& id : report.rhythms) {
    const double wait = turns_.LongestWait(id);
    if (wait > 0) message.waits.push_back({id.job, wait});
  }
  for (const JobId& id : floors) message.floors.push_back(WordOn(id));
  return message;
}

// Returns what is told of the floor of a job; of one that has just been forgotten, that it has
// none.
FloorWord Controller::WordOn(const JobId& id) const {
  FloorWord word{.communicator = id.job};
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return word;
  word.floor = job->second.terms.floor;
  const FloorBook::Answer answer = floors_.AnswerFor({id.tenant, job->second.terms.owner});
  word.refused = !answer.holds;
  if (word.refused) {
    word.room = answer.room;
    word.tenant_bound = answer.tenant_bound;
  }
  const FloorWatch::Missed* const missed = watch_.Of(Sharer::Of(id.tenant, job->second.terms));
  word.missed = missed != nullptr && missed->missed && answer.holds;
  if (word.missed) word.had = missed->had;
  return word;
}

std::vector<ControlledJob> Controller::Jobs() const {
  std::map<JobId, ControlledJob> jobs;
  for (const auto& [peer, report] : reports_) {
    for (const JobFlow& flow : report.flows) {
      ControlledJob& job = jobs[flow.job];
      job.job = flow.job;
      job.bytes_per_second += flow.bytes_per_second;
      ++job.rails;
      job.terms = flow.terms;
    }
  }
  for (const auto& [id, rails] : shares_.HeldBack()) {
    const auto found = jobs.find(id);
    if (found != jobs.end()) found->second.held_back = rails;
  }
  std::vector<ControlledJob> list;
  for (auto& [id, job] : jobs) {
    job.waits = turns_.WaitsOf(id);
    if (job.terms.floor > 0) {
      const FloorWord word = WordOn(id);
      job.floor_refused = word.refused;
      job.floor_missed = word.missed;
    }
    list.push_back(job);
  }
  return list;
}

}  // namespace harmonaize::daemon
