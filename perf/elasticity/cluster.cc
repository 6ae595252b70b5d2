#include "perf/elasticity/cluster.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace harmonaize::elasticity {
namespace {

/// By how much a measured time may be off, as a part: that of a median over some steps.
constexpr double kNoise = 0.05;
/// Bounds of the time that tenants take to answer, in seconds: those that look between two steps,
/// and those that ask a person.
constexpr double kSoonestAnswer = 0.5;
constexpr double kQuickAnswer = 5;
constexpr double kLatestAnswer = 300;
/// For how long a tenant that declines does not want to be asked, in seconds.
constexpr double kQuietSeconds = 600;
/// A job is done with less than this part of a step left: sums of times are not exact.
constexpr double kNoStep = 1e-6;

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Cluster::Cluster(const std::vector<TraceJob>& trace, const ClusterOptions& options)
    : trace_(trace),
      options_(options),
      random_(options.seed),
      jobs_(trace.size()),
      free_(static_cast<size_t>(options.hosts), options.places_per_host) {
  outcome_.jobs.resize(trace.size());
  for (size_t i = 0; i < trace.size(); ++i) {
    jobs_[i].steps_left = trace[i].steps;
    jobs_[i].ranks.resize(free_.size());
    outcome_.jobs[i].arrived_seconds = trace[i].arrives_seconds;
  }
}

Outcome Cluster::Run() {
  while (arrived_ < trace_.size() || !running_.empty() || !waiting_.empty()) {
    Advance(NextEventSeconds());
    EndJobs();
    TakeAnswers();
    TakeArrivals();
    BeginJobs();
    if (options_.makes_offers && now_seconds_ >= next_look_seconds_) Look();
  }
  const double places = static_cast<double>(options_.hosts) * options_.places_per_host;
  outcome_.use = used_place_seconds_ / (places * trace_.back().arrives_seconds);
  return std::move(outcome_);
}

double Cluster::StepSeconds(size_t i) const {
  return trace_[i].scaling.StepSeconds(jobs_[i].size);
}

double Cluster::EndOf(size_t i) const {
  const double begins = std::max(now_seconds_, jobs_[i].paused_until_seconds);
  return begins + jobs_[i].steps_left * StepSeconds(i);
}

double Cluster::NextEventSeconds() const {
  double next = arrived_ < trace_.size() ? trace_[arrived_].arrives_seconds : kNever;
  for (const size_t i : running_) {
    next = std::min(next, EndOf(i));
    for (const PendingOffer& offer : jobs_[i].offers) next = std::min(next, offer.answered_seconds);
  }
  if (options_.makes_offers && !running_.empty()) next = std::min(next, next_look_seconds_);
  return std::max(next, now_seconds_);
}

void Cluster::Advance(double to_seconds) {
  const double last_arrival = trace_.back().arrives_seconds;
  const double counted = std::max(0.0, std::min(to_seconds, last_arrival) - now_seconds_);
  for (const size_t i : running_) {
    Job& job = jobs_[i];
    const double begins = std::max(now_seconds_, job.paused_until_seconds);
    job.steps_left -= std::max(0.0, to_seconds - begins) / StepSeconds(i);
    outcome_.jobs[i].rank_seconds += job.size * (to_seconds - now_seconds_);
    used_place_seconds_ += job.size * counted;
  }
  now_seconds_ = to_seconds;
}

void Cluster::EndJobs() {
  std::erase_if(running_, [&](size_t i) {
    Job& job = jobs_[i];
    if (job.steps_left > kNoStep) return false;
    job.state = State::kDone;
    outcome_.jobs[i].ended_seconds = now_seconds_;
    for (size_t host = 0; host < free_.size(); ++host) free_[host] += job.ranks[host];
    for (const PendingOffer& offer : job.offers) free_[offer.host] += std::max(0, offer.ranks);
    job.offers.clear();
    return true;
  });
}

void Cluster::TakeArrivals() {
  for (; arrived_ < trace_.size() && trace_[arrived_].arrives_seconds <= now_seconds_; ++arrived_) {
    jobs_[arrived_].state = State::kWaiting;
    waiting_.push_back(arrived_);
  }
}

void Cluster::TakeAnswers() {
  for (const size_t i : running_) {
    Job& job = jobs_[i];
    for (const PendingOffer& offer : job.offers) {
      if (offer.answered_seconds <= now_seconds_) Apply(i, offer);
    }
    std::erase_if(job.offers, [&](const PendingOffer& offer) {
      return offer.answered_seconds <= now_seconds_;
    });
  }
}

/// Has a job do what it has agreed to, or takes note that it declines.
void Cluster::Apply(size_t i, const PendingOffer& offer) {
  Job& job = jobs_[i];
  if (offer.is_declined) {
    ++outcome_.declined;
    free_[offer.host] += std::max(0, offer.ranks);
    job.quiet_until_seconds = now_seconds_ + kQuietSeconds;
    return;
  }
  job.ranks[offer.host] += offer.ranks;
  job.size += offer.ranks;
  // Places that were offered are no others' since then; places that are left are free now.
  free_[offer.host] += std::max(0, -offer.ranks);
  const double pause = offer.ranks > 0 ? PauseOf(i) : options_.pause_seconds;
  job.paused_until_seconds = std::max(job.paused_until_seconds, now_seconds_ + pause);
  ++outcome_.jobs[i].changes;
}

/// Returns how long the job stands still for new ranks.
double Cluster::PauseOf(size_t i) const {
  const double rate = options_.state_bytes_per_second;
  return options_.pause_seconds + (rate > 0 ? trace_[i].state_bytes / rate : 0);
}

int32_t Cluster::FreePlaces() const {
  return std::accumulate(free_.begin(), free_.end(), 0);
}

int32_t Cluster::LeastToBegin(size_t i) const {
  return options_.begins_smaller ? trace_[i].least : trace_[i].ranks;
}

/// Returns with how many ranks a job can begin on so many places; nullopt: it has to wait.
std::optional<int32_t> Cluster::SizeToBegin(size_t i, int32_t places) const {
  if (places < LeastToBegin(i)) return std::nullopt;
  return std::min(places, trace_[i].ranks);
}

/// Places a job, on as few hosts as there are: on the fullest one that has room for all of its
/// ranks, or else on those with the most room.
void Cluster::Begin(size_t i, int32_t size) {
  Job& job = jobs_[i];
  job.state = State::kRunning;
  job.size = size;
  for (int32_t left = size; left > 0;) {
    size_t best = 0;
    const auto is_better = [&](size_t host) {
      const bool fits = free_[host] >= left;
      if (fits != (free_[best] >= left)) return fits;
      return fits ? free_[host] < free_[best] : free_[host] > free_[best];
    };
    for (size_t host = 1; host < free_.size(); ++host) {
      if (is_better(host)) best = host;
    }
    const int32_t here = std::min(left, free_[best]);
    job.ranks[best] += here;
    free_[best] -= here;
    left -= here;
  }
  running_.push_back(i);
  outcome_.jobs[i].began_seconds = now_seconds_;
}

/// Returns when so many places will be free if nothing begins, and stores how many more there are
/// then.
double Cluster::ShadowSeconds(int32_t places, int32_t* spare) const {
  std::vector<std::pair<double, int32_t>> ends;
  for (const size_t i : running_) ends.emplace_back(EndOf(i), jobs_[i].size);
  std::sort(ends.begin(), ends.end());
  int32_t free_places = FreePlaces();
  for (const auto& [end, size] : ends) {
    free_places += size;
    if (free_places < places) continue;
    *spare = free_places - places;
    return end;
  }
  *spare = 0;
  return kNever;
}

/// Begins the jobs that can, in the order in which they have come. Where jobs may be backfilled,
/// those behind the first one that has to wait begin if it does not begin later for that.
void Cluster::BeginJobs() {
  std::optional<double> shadow_seconds;
  int32_t spare = 0;
  std::erase_if(waiting_, [&](size_t i) {
    const std::optional<int32_t> size = SizeToBegin(i, FreePlaces());
    if (!shadow_seconds.has_value()) {
      if (size.has_value()) {
        Begin(i, *size);
        return true;
      }
      shadow_seconds = options_.backfills ? ShadowSeconds(LeastToBegin(i), &spare) : 0;
      return false;
    }
    if (!options_.backfills || !size.has_value()) return false;
    const double ends = now_seconds_ + trace_[i].steps * trace_[i].scaling.StepSeconds(*size);
    if (ends > *shadow_seconds && *size > spare) return false;
    if (ends > *shadow_seconds) spare -= *size;
    Begin(i, *size);
    return true;
  });
}

/// Takes in what the job's reports tell of its steps. Pauses are not steps.
void Cluster::Measure(size_t i) {
  Job& job = jobs_[i];
  if (job.paused_until_seconds > now_seconds_) return;
  const auto noisy = [&](double seconds) {
    return seconds * random_.Uniform(1 - kNoise, 1 + kNoise);
  };
  const double exchange = noisy(trace_[i].scaling.ExchangeSeconds(job.size));
  const double rest = noisy(StepSeconds(i) - trace_[i].scaling.ExchangeSeconds(job.size));
  std::erase_if(job.seen, [&](const daemon::SpeedSample& one) { return one.ranks == job.size; });
  job.seen.push_back({.ranks = job.size,
                      .samples = 1,
                      .step_seconds = rest + exchange,
                      .exchange_seconds = exchange});
}

daemon::ElasticWorld Cluster::World() const {
  daemon::ElasticWorld world = {.now_seconds = now_seconds_};
  for (const int32_t free_places : free_) world.hosts.push_back({.free_places = free_places});
  for (const size_t i : running_) {
    const Job& job = jobs_[i];
    for (const PendingOffer& offer : job.offers) {
      world.hosts[offer.host].coming_places += std::max(0, -offer.ranks);
    }
    if (!trace_[i].is_elastic) continue;
    const std::optional<daemon::SpeedModel> model = daemon::SpeedModel::Fit(job.seen);
    if (!model.has_value()) continue;
    world.jobs.push_back({.id = i,
                          .ranks = job.ranks,
                          .bounds = {.least = trace_[i].least, .most = trace_[i].most, .step = 1},
                          .samples_left = job.steps_left,
                          .speed = *model,
                          .change_seconds = PauseOf(i),
                          .quiet_until_seconds = job.quiet_until_seconds,
                          .is_asked = !job.offers.empty()});
  }
  for (const size_t i : waiting_) world.waiting.push_back({.id = i, .ranks = LeastToBegin(i)});
  return world;
}

void Cluster::Look() {
  next_look_seconds_ = now_seconds_ + options_.look_seconds;
  for (const size_t i : running_) {
    if (trace_[i].is_elastic) Measure(i);
  }
  for (const daemon::ElasticOffer& offer : policy_.Decide(World())) Make(offer);
}

void Cluster::Make(const daemon::ElasticOffer& offer) {
  ++outcome_.offers;
  const Tenants& tenants = options_.tenants;
  const bool is_declined = random_.Uniform(0, 1) < tenants.declining;
  const bool is_late = random_.Uniform(0, 1) < tenants.late;
  const double after = is_late ? random_.Uniform(kQuickAnswer, kLatestAnswer)
                               : random_.Uniform(kSoonestAnswer, kQuickAnswer);
  if (offer.grows) free_[offer.host] -= offer.ranks;
  jobs_[offer.job].offers.push_back({.host = offer.host,
                                     .ranks = offer.grows ? offer.ranks : -offer.ranks,
                                     .answered_seconds = now_seconds_ + after,
                                     .is_declined = is_declined});
}

}  // namespace harmonaize::elasticity
