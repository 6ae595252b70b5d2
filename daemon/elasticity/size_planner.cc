#include "daemon/elasticity/size_planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harmonaize::daemon {
namespace {

/// Least part by which a change has to shorten a job's steps: measured times vary by some percent.
constexpr double kLeastShortening = 0.03;
/// How many times the pause of a change has to be saved by it, since predictions err.
constexpr double kWorthOfChange = 3;
/// Longest time, in seconds, for which a gain is counted: later the places may be needed elsewhere.
constexpr double kHorizonSeconds = 1800;
/// How many times as much a job has to gain by a place as another one loses. Below it jobs would
/// take places from each other for what is within the error of predictions.
constexpr double kTradeRatio = 1.5;
/// The same, for the gain itself: shortening by a rank that is within the error of predictions.
constexpr double kLeastTradeGain = 0.01;
/// A size is nearly as cheap as the cheapest one up to this many times its cost.
constexpr double kNearlyAsCheap = 1.1;
/// A job is made cheaper from this many times the least cost on: the two differ, so that it does
/// not go to and fro.
constexpr double kTooDear = 1.25;
/// Part of the time left that a deadline has to leave over, since predictions err.
constexpr double kDeadlineMargin = 0.05;
/// Most times that gains are planned anew without jobs whose changes would not pay. It bounds the
/// time of a look, whatever tenants tell of their jobs.
constexpr int kMostRounds = 8;
/// Most jobs that wait for which places are sought in one look: those behind them wait for these.
constexpr size_t kMostServed = 32;

}  // namespace

SizePlanner::SizePlanner(const ElasticWorld& world, std::vector<bool> left_alone,
                         const std::vector<bool>& settling)
    : world_(world),
      left_alone_(std::move(left_alone)),
      settling_(settling),
      first_(world),
      all_places_(first_.free_places()),
      gains_nothing_(world.jobs.size()),
      cheap_sizes_(world.jobs.size()),
      draft_{.placement = Placement(world),
             .directions = std::vector<Direction>(world.jobs.size(), Direction::kNone),
             .losses = std::vector<std::optional<Loss>>(world.jobs.size()),
             .changes = {}} {
  for (size_t i = 0; i < world.jobs.size(); ++i) {
    draft_.losses[i] = LossOf(i);
    all_places_ += first_.size(i);
  }
}

std::vector<SizeChange> SizePlanner::Plan() {
  ServeWaiting();
  ServeDeadlines();
  LeaveSettlingAlone();
  SeekGains();
  return std::move(draft_.changes);
}

void SizePlanner::LeaveSettlingAlone() {
  for (size_t i = 0; i < settling_.size(); ++i) {
    if (!settling_[i]) continue;
    left_alone_[i] = true;
    draft_.losses[i] = std::nullopt;
  }
}

/// Plans what only makes jobs faster or cheaper. Places of a job whose change would not pay are
/// others': all is planned again without it. Where that takes too often, it is planned without all
/// jobs of the tenants of such jobs: who tells of many loses by it alone.
void SizePlanner::SeekGains() {
  for (size_t i = 0; i < world_.jobs.size(); ++i) gains_nothing_[i] = !CouldPay(i);
  const Draft before = draft_;
  std::set<uint32_t>
      in_vain;  // tenants of jobs that would have grown, and whose change does not pay
  for (int round = 0; round < kMostRounds; ++round) {
    if (round == kMostRounds - 1) LeaveOutTenants(in_vain);
    draft_ = before;
    ShareFreePlaces();
    Trade();
    MakeCheaper();
    if (!NoteWhatDoesNotPay(&in_vain)) return;
  }
  std::erase_if(draft_.changes, [&](const SizeChange& change) {
    const bool grows_in_vain = change.reason == SizeReason::kShortens && gains_nothing_[change.job];
    return grows_in_vain || (change.taker.has_value() && gains_nothing_[*change.taker]);
  });
}

void SizePlanner::LeaveOutTenants(const std::set<uint32_t>& tenants) {
  for (size_t i = 0; i < world_.jobs.size(); ++i) {
    if (tenants.contains(job(i).tenant)) gains_nothing_[i] = true;
  }
}

/// Returns whether the job may change, and does not change the other way already.
bool SizePlanner::MayMove(size_t i, Direction direction) const {
  const Direction now = draft_.directions[i];
  return !left_alone_[i] && (now == Direction::kNone || now == direction);
}

double SizePlanner::SecondsLeft(size_t i, double speed) const {
  return job(i).samples_left / speed;
}

bool SizePlanner::MeetsDeadline(size_t i, double speed) const {
  if (job(i).samples_left <= 0) return true;
  const double time_left = job(i).deadline_seconds - world_.now_seconds;
  return SecondsLeft(i, speed) <= time_left * (1 - kDeadlineMargin);
}

/// Returns the rank-seconds for a sample.
double SizePlanner::CostOf(size_t i, int32_t ranks) const {
  return ranks / job(i).speed.Speed(ranks);
}

/// Returns the least rank-seconds for a sample of the sizes up to the present one. Above it they do
/// not fall: what is exchanged only grows.
double SizePlanner::LeastCost(size_t i) const {
  const ElasticBounds& bounds = job(i).bounds;
  double least = CostOf(i, draft_.placement.size(i));
  for (int32_t size = draft_.placement.size(i); size >= bounds.least; size -= bounds.step) {
    least = std::min(least, CostOf(i, size));
  }
  return least;
}

/// Returns the largest size that is nearly as cheap as the cheapest one, as the job was when this
/// was asked first: to find it takes as long as there are sizes.
int32_t SizePlanner::CheapSize(size_t i) {
  if (!cheap_sizes_[i].has_value()) cheap_sizes_[i] = FindCheapSize(i);
  return *cheap_sizes_[i];
}

int32_t SizePlanner::FindCheapSize(size_t i) const {
  const ElasticBounds& bounds = job(i).bounds;
  const int32_t now = draft_.placement.size(i);
  const int32_t most = std::max(now, std::min(bounds.most, now + draft_.placement.free_places()));
  const double bearable = kNearlyAsCheap * LeastCost(i);
  int32_t best = now;
  while (best - bounds.step >= bounds.least && CostOf(i, best) > bearable) best -= bounds.step;
  while (best + bounds.step <= most && CostOf(i, best + bounds.step) <= bearable) {
    best += bounds.step;
  }
  return best;
}

/// Returns the smallest larger size with which the deadline is met; nullopt: none.
std::optional<int32_t> SizePlanner::SizeForDeadline(size_t i) const {
  const ElasticBounds& bounds = job(i).bounds;
  int64_t places = draft_.placement.free_places();
  for (size_t k = 0; k < world_.jobs.size(); ++k) places += draft_.placement.size(k);
  const int64_t most = std::min<int64_t>(bounds.most, places);
  for (int64_t size = draft_.placement.size(i) + bounds.step; size <= most; size += bounds.step) {
    if (MeetsDeadline(i, job(i).speed.Speed(static_cast<int32_t>(size)))) {
      return static_cast<int32_t>(size);
    }
  }
  return std::nullopt;
}

/// Returns whether so many more ranks of a job keep its tenant's share.
bool SizePlanner::TenantMayHaveMore(size_t i, int32_t ranks) const {
  const auto share = world_.shares.find(job(i).tenant);
  return share == world_.shares.end() ||
         draft_.placement.HeldByTenantOf(i) + ranks <= share->second;
}

/// Returns whether its tenant has its share, or more, without one step of the job.
bool SizePlanner::IsAboveShare(size_t i) const {
  const auto share = world_.shares.find(job(i).tenant);
  return share != world_.shares.end() &&
         draft_.placement.KeptByTenantOf(i) - job(i).bounds.step >= share->second;
}

/// Returns what one step more on the host brings for each rank; nullopt if it may not be.
std::optional<double> SizePlanner::Gain(size_t i, std::optional<size_t> host) {
  const ElasticJob& one = job(i);
  const int32_t size = draft_.placement.size(i);
  if (!host.has_value() || gains_nothing_[i] || !MayMove(i, Direction::kUp) ||
      size > one.bounds.most - one.bounds.step || !TenantMayHaveMore(i, one.bounds.step)) {
    return std::nullopt;
  }
  const double now = draft_.placement.Speed(i);
  // Such a job gets what its deadline needs, and no more.
  if (one.goal == ElasticGoal::kDeadline && one.deadline_seconds > 0 && MeetsDeadline(i, now)) {
    return std::nullopt;
  }
  const double gain = std::log(draft_.placement.SpeedWith(i, *host, one.bounds.step) / now);
  if (!(gain > 0)) return std::nullopt;
  if (one.goal == ElasticGoal::kCheapest && size + one.bounds.step > CheapSize(i)) {
    return std::nullopt;
  }
  return gain / one.bounds.step;
}

/// Returns what one step less costs the job; nullopt if it may not be.
std::optional<SizePlanner::Loss> SizePlanner::LossOf(size_t i) const {
  const ElasticJob& one = job(i);
  if (!MayMove(i, Direction::kDown)) return std::nullopt;
  if (draft_.placement.size(i) - one.bounds.step < one.bounds.least) return std::nullopt;
  const std::optional<size_t> host = draft_.placement.HostToShrink(i, one.bounds.step);
  if (!host.has_value()) return std::nullopt;
  const double now = draft_.placement.Speed(i);
  const double then = draft_.placement.SpeedWith(i, *host, -one.bounds.step);
  if (one.deadline_seconds > 0 && MeetsDeadline(i, now)) {
    if (!MeetsDeadline(i, then)) return std::nullopt;
    if (one.goal == ElasticGoal::kDeadline) return Loss{.per_rank = 0, .host = *host};
  }
  return Loss{.per_rank = std::log(now / then) / one.bounds.step, .host = *host};
}

std::optional<size_t> SizePlanner::LeastHarmed(const MayGive& may_give) const {
  std::optional<size_t> best;
  for (size_t i = 0; i < world_.jobs.size(); ++i) {
    const std::optional<Loss>& loss = draft_.losses[i];
    if (!loss.has_value() || !may_give(i)) continue;
    if (!best.has_value() || loss->per_rank < draft_.losses[*best]->per_rank) best = i;
  }
  return best;
}

/// Returns whether a job may take the places that another one would leave: it has room there, they
/// are enough for one of its steps, and the other one's tenant has more than its share, or is the
/// same. What a tenant says of its jobs never brings it what is another's share.
bool SizePlanner::CanUse(size_t taker, size_t giver) const {
  const int32_t step = job(taker).bounds.step;
  return taker != giver && job(giver).priority <= job(taker).priority &&
         job(giver).bounds.step >= step &&
         (job(giver).tenant == job(taker).tenant || IsAboveShare(giver)) &&
         draft_.placement.room(taker, draft_.losses[giver]->host) >= step;
}

/// Has the job grow by one step on a host.
void SizePlanner::Grow(size_t i, size_t host, SizeReason reason, bool is_possible) {
  const int32_t ranks = job(i).bounds.step;
  draft_.placement.Grow(i, host, ranks);
  draft_.directions[i] = Direction::kUp;
  draft_.losses[i] = std::nullopt;
  for (SizeChange& change : draft_.changes) {
    if (change.job != i || change.host != host || change.is_possible != is_possible) continue;
    change.ranks += ranks;
    return;
  }
  draft_.changes.push_back({i, host, ranks, reason, is_possible, {}});
}

/// Has the job shrink by one step; returns by how many ranks. Requires: LossOf has said that it
/// may.
int32_t SizePlanner::Shrink(size_t i, SizeReason reason, std::optional<size_t> taker) {
  const int32_t ranks = job(i).bounds.step;
  const size_t host = draft_.losses[i]->host;
  draft_.placement.Shrink(i, host, ranks);
  draft_.directions[i] = Direction::kDown;
  draft_.losses[i] = LossOf(i);
  for (SizeChange& change : draft_.changes) {
    if (change.job != i || change.host != host) continue;
    change.ranks -= ranks;
    return ranks;
  }
  draft_.changes.push_back({i, host, -ranks, reason, true, taker});
  return ranks;
}

/// Takes places from the least harmed jobs; returns whether there were enough. Places that are
/// taken beyond the number, since jobs shrink by steps, become free as well.
bool SizePlanner::Collect(int32_t places, const MayGive& may_give, SizeReason reason) {
  int32_t missing = places;
  while (missing > 0) {
    const std::optional<size_t> giver = LeastHarmed(may_give);
    if (!giver.has_value()) return false;
    missing -= Shrink(*giver, reason, {});
  }
  return true;
}

/// Reserves places for jobs that wait, and has others leave them where too few are free. Where not
/// all places of a job can be had, none are taken for it.
void SizePlanner::ServeWaiting() {
  int64_t coming = 0;
  for (const ElasticHost& host : world_.hosts) coming += host.coming_places;
  int64_t pool = draft_.placement.free_places() + coming;
  int64_t reserved = 0;
  const size_t served = std::min(world_.waiting.size(), kMostServed);
  for (size_t k = 0; k < served; ++k) {
    const WaitingJob& waiting = world_.waiting[k];
    const int64_t missing = waiting.ranks - pool;
    if (missing > 0) {
      Draft before = draft_;
      const auto may_give = [&](size_t i) { return job(i).priority <= waiting.priority; };
      if (!Collect(static_cast<int32_t>(missing), may_give, SizeReason::kNewcomer)) {
        draft_ = std::move(before);
        continue;
      }
      pool += missing;
    }
    pool -= waiting.ranks;
    reserved += waiting.ranks;
  }
  // Waiting jobs take free places first, and what is left of the pool becomes free later.
  const int64_t left = std::max<int64_t>(0, draft_.placement.free_places() - reserved);
  draft_.unreserved = static_cast<int32_t>(left);
  draft_.coming = static_cast<int32_t>(std::clamp<int64_t>(pool - left, 0, coming));
}

/// Has jobs grow that would miss their deadlines, and can meet them.
void SizePlanner::ServeDeadlines() {
  std::vector<size_t> late;
  for (size_t i = 0; i < world_.jobs.size(); ++i) {
    if (job(i).deadline_seconds <= 0 || !MayMove(i, Direction::kUp)) continue;
    if (!MeetsDeadline(i, draft_.placement.Speed(i))) late.push_back(i);
  }
  std::stable_sort(late.begin(), late.end(), [&](size_t one, size_t other) {
    return job(one).priority > job(other).priority;
  });
  for (const size_t i : late) {
    const std::optional<int32_t> size = SizeForDeadline(i);
    if (!size.has_value()) continue;
    Draft before = draft_;
    if (!GrowTo(i, *size)) draft_ = std::move(before);
  }
}

/// Has a job grow to a size on free places and on those of others; returns whether it can.
bool SizePlanner::GrowTo(size_t i, int32_t size) {
  const int32_t step = job(i).bounds.step;
  const auto may_give = [&](size_t k) { return CanUse(i, k); };
  int32_t missing = size - draft_.placement.size(i);
  if (!TenantMayHaveMore(i, missing)) return false;
  for (; missing > 0 && draft_.unreserved >= step; missing -= step, draft_.unreserved -= step) {
    const std::optional<size_t> host = draft_.placement.HostToGrow(i, step);
    if (!host.has_value()) break;
    Grow(i, *host, SizeReason::kDeadline, true);
  }
  const int32_t awaited = std::clamp(missing, 0, draft_.coming);
  draft_.coming -= awaited;
  missing -= awaited;
  return missing <= 0 || Collect(missing, may_give, SizeReason::kDeadline);
}

/// Gives each free place to the job that it brings most, those of a higher priority first.
void SizePlanner::ShareFreePlaces() {
  const size_t jobs = world_.jobs.size();
  std::vector<std::optional<size_t>> hosts(jobs);
  std::vector<std::optional<double>> gains(jobs);
  const auto look_at = [&](size_t i) {
    hosts[i] = draft_.placement.HostToGrow(i, job(i).bounds.step);
    gains[i] = Gain(i, hosts[i]);
  };
  for (size_t i = 0; i < jobs; ++i) look_at(i);
  while (draft_.unreserved > 0) {
    std::optional<size_t> best;
    for (size_t i = 0; i < jobs; ++i) {
      if (!gains[i].has_value() || job(i).bounds.step > draft_.unreserved) continue;
      if (best.has_value() &&
          std::pair(job(i).priority, *gains[i]) <= std::pair(job(*best).priority, *gains[*best])) {
        continue;
      }
      best = i;
    }
    if (!best.has_value()) return;
    // Another job may have taken the places since they were looked at.
    look_at(*best);
    if (!gains[*best].has_value()) continue;
    draft_.unreserved -= job(*best).bounds.step;
    Grow(*best, *hosts[*best], SizeReason::kShortens, true);
    look_at(*best);
  }
}

/// Takes the places of one step for a job from the one that loses least, if that is less than what
/// is bearable. Places that become free anyway go first. Returns the host on which the job is taken
/// to grow; nullopt: there are no such places.
std::optional<size_t> SizePlanner::CollectFor(size_t taker, double bearable) {
  const int32_t step = job(taker).bounds.step;
  if (draft_.coming >= step) {
    draft_.coming -= step;
    return draft_.placement.HostToShrink(taker, 1);
  }
  const std::optional<size_t> giver = LeastHarmed(
      [&](size_t i) { return draft_.losses[i]->per_rank < bearable && CanUse(taker, i); });
  if (!giver.has_value()) return std::nullopt;
  const size_t host = draft_.losses[*giver]->host;
  Shrink(*giver, SizeReason::kTrade, taker);
  return host;
}

/// Has jobs leave places that bring another one much more. The other one is offered them when they
/// are free.
void SizePlanner::Trade() {
  const size_t jobs = world_.jobs.size();
  // Where its next ranks would be is not known yet. Where ranks of it are does for an estimate.
  const auto host_of = [&](size_t i) { return draft_.placement.HostToShrink(i, 1); };
  std::vector<std::optional<double>> gains(jobs);
  for (size_t i = 0; i < jobs; ++i) gains[i] = Gain(i, host_of(i));
  for (;;) {
    const auto taker = std::max_element(gains.begin(), gains.end());
    if (taker == gains.end() || taker->value_or(0) < kLeastTradeGain) return;
    const auto i = static_cast<size_t>(taker - gains.begin());
    const std::optional<size_t> host = CollectFor(i, **taker / kTradeRatio);
    if (!host.has_value()) {
      *taker = std::nullopt;
      continue;
    }
    Grow(i, *host, SizeReason::kShortens, false);
    *taker = Gain(i, host_of(i));
    for (size_t k = 0; k < jobs; ++k) {
      if (draft_.directions[k] == Direction::kDown) gains[k] = std::nullopt;
    }
  }
}

/// Has jobs shrink that want to be cheap and are not.
void SizePlanner::MakeCheaper() {
  for (size_t i = 0; i < world_.jobs.size(); ++i) {
    if (job(i).goal != ElasticGoal::kCheapest || !MayMove(i, Direction::kDown)) continue;
    if (CostOf(i, draft_.placement.size(i)) < kTooDear * LeastCost(i)) continue;
    const int32_t cheap = CheapSize(i);
    while (draft_.placement.size(i) > cheap && draft_.losses[i].has_value())
      Shrink(i, SizeReason::kCheaper, {});
  }
}

/// Returns whether growing could be worth the pause, with as many of all places as are best. Trades
/// bring places that are not free. Between sizes that differ by a quarter speeds differ by less
/// than predictions err, so few are looked at.
bool SizePlanner::CouldPay(size_t i) const {
  const int64_t step = job(i).bounds.step;
  const int64_t now = first_.size(i);
  const int64_t steps = (std::min<int64_t>(job(i).bounds.most, all_places_) - now) / step;
  double best = first_.Speed(i);
  for (int64_t more = 1; more <= steps;) {
    const int64_t size = now + more * step;
    best = std::max(best, job(i).speed.Speed(static_cast<int32_t>(size)));
    if (more == steps) break;
    more = std::min(steps, more + std::max<int64_t>(1, size / 4 / step));
  }
  return IsWorth(i, best, job(i).change_seconds);
}

/// Returns whether what is planned for a job is worth the pause.
bool SizePlanner::Pays(size_t i, double pause_seconds) const {
  return IsWorth(i, draft_.placement.Speed(i), pause_seconds);
}

/// Returns whether another speed of a job is worth the pause of a change.
bool SizePlanner::IsWorth(size_t i, double speed, double pause_seconds) const {
  const double now = first_.Speed(i);
  const double shortening = 1 - now / speed;
  if (!(shortening >= kLeastShortening)) return false;
  const double left = job(i).samples_left > 0 ? SecondsLeft(i, now) : kHorizonSeconds;
  return std::min(left, kHorizonSeconds) * shortening >= kWorthOfChange * pause_seconds;
}

/// Notes jobs whose growth is not worth the pause of a change, that of a trade's giver included,
/// and their tenants. Returns whether there are any.
bool SizePlanner::NoteWhatDoesNotPay(std::set<uint32_t>* tenants) {
  bool is_any = false;
  const auto note = [&](size_t i, double pause_seconds) {
    if (Pays(i, pause_seconds)) return;
    gains_nothing_[i] = true;
    tenants->insert(job(i).tenant);
    is_any = true;
  };
  for (const SizeChange& change : draft_.changes) {
    const double pause = job(change.job).change_seconds;
    if (change.reason == SizeReason::kShortens) note(change.job, pause);
    if (change.taker.has_value()) note(*change.taker, pause + job(*change.taker).change_seconds);
  }
  return is_any;
}

}  // namespace harmonaize::daemon
