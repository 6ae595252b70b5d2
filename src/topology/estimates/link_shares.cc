#include "src/topology/estimates/link_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace harmonaize {
namespace {

/// Time constant of the mean rate, in seconds: jobs send in bursts, so a mean of about this long
/// counts.
constexpr double kMeanSeconds = 0.3;
/// Mean rates below this many bytes a second count as nothing.
constexpr double kNothing = 1000;
/// Fraction of an edge's capacity that every job is taken to want at least. If all other jobs need
/// less than this together, no job is held back for them.
constexpr double kLeastWanted = 0.01;
/// A job that sends and has less than this fraction of its share is deprived of it by others.
constexpr double kDeprived = 0.9;
/// A job using at least this fraction of its grant is assumed to be limited by it.
constexpr double kTaken = 0.97;
/// Least headroom, as a fraction of the job's mean rate.
constexpr double kLeastHeadroom = 0.05;
/// Factor on the headroom while the job uses less of its grant than kTaken.
constexpr double kHeadroomStep = 0.8;
/// Seconds for which a deprived job is given room, to see whether it takes it.
constexpr double kTrialSeconds = 1.5;
/// The trial goes on while the job is at least this many times as fast as before it.
constexpr double kTakesRoom = 1.1;
/// The rate to compare with grows by this factor after each such trial.
constexpr double kBaseCreeps = 1.03;
/// Seconds without room after the first trial that failed. They double after each further one.
constexpr double kFirstRestSeconds = 0.5;
/// Most seconds without room after a trial that failed.
constexpr double kLongestRestSeconds = 32;
/// A job that has more than this multiple of its share may be held back.
constexpr double kAbove = 1.15;
/// A job stays held back while it has more than this fraction of its share. A released job takes
/// what it can before that is seen, so the bound is low.
constexpr double kBelow = 0.5;
/// Factor by which each flow of a job may send more while together they take less than their grant,
/// because flows of one job do not all send at the same time.
constexpr double kStretchStep = 1.1;
/// Most that these factors may multiply to.
constexpr double kMostStretch = 8;
/// Fraction of an equal share with which a flow that rests may begin.
constexpr double kBegins = 0.25;
/// Relative changes of the available rate up to this are noise.
constexpr double kNoise = 0.08;
/// Available capacity of at least this fraction of the edge's counts as all of it.
constexpr double kWhole = 0.9;

}  // namespace

std::vector<double> ShareOut(std::span<const Claim> claims, double capacity) {
  std::vector<size_t> order(claims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The claim that wants least for its weight is served first: what it leaves is for all others.
  std::sort(order.begin(), order.end(), [&claims](size_t a, size_t b) {
    return claims[a].wanted * claims[b].weight < claims[b].wanted * claims[a].weight;
  });
  double weights = 0;
  for (const Claim& claim : claims) weights += claim.weight;
  std::vector<double> shares(claims.size());
  for (const size_t i : order) {
    const double share = weights > 0 ? capacity * claims[i].weight / weights : 0;
    shares[i] = std::min(claims[i].wanted, share);
    capacity = std::max(capacity - shares[i], 0.0);
    weights -= claims[i].weight;
  }
  return shares;
}

void LinkShares::Take(std::span<const JobFlow> flows,
                      const std::function<double(int edge)>& capacity, double now_seconds) {
  TakeMeans(flows, now_seconds);
  SumUp(capacity);
  GiveRoom(now_seconds);
  held_back_.clear();
  for (const int edge : used_) Grant(&edges_[static_cast<size_t>(edge)]);
}

void LinkShares::TakeMeans(std::span<const JobFlow> flows, double now_seconds) {
  const double passed = taken_seconds_ < 0 ? kMeanSeconds : now_seconds - taken_seconds_;
  taken_seconds_ = now_seconds;
  const double kept = std::exp(-passed / kMeanSeconds);
  for (auto& [name, flow] : flows_) {
    flow.mean *= kept;
    flow.last = 0;
  }
  for (const JobFlow& now : flows) {
    const auto [found, is_new] = flows_.try_emplace({now.rail, now.job});
    Flow& flow = found->second;
    flow.mean += is_new ? now.bytes_per_second : (1 - kept) * now.bytes_per_second;
    flow.last = now.bytes_per_second;
    flow.sending = now.sending;
    flow.weight = now.weight;
    flow.edges = now.edges;
  }
  std::erase_if(flows_, [](const auto& one) { return one.second.mean < kNothing; });
  std::set<JobId> jobs;
  for (const auto& [name, flow] : flows_) jobs.insert(name.second);
  std::erase_if(available_, [&jobs](const auto& one) { return !jobs.contains(one.first); });
}

// A linear search, because few jobs send over one edge.
LinkShares::Part* LinkShares::EdgeParts::Of(const JobId& job) {
  const auto found =
      std::find_if(jobs.begin(), jobs.end(), [&job](const Part& part) { return part.job == job; });
  return found != jobs.end() ? &*found : &jobs.emplace_back(Part{.job = job});
}

// Sums up, from the flows, what each job sends over each edge.
void LinkShares::SumUp(const std::function<double(int edge)>& capacity) {
  for (const int edge : used_) {
    for (Part& part : edges_[static_cast<size_t>(edge)].jobs) {
      part.mean = 0;
      part.last = 0;
      part.flows = 0;
    }
  }
  for (const auto& [name, flow] : flows_) {
    for (const CrossedEdge& crossed : *flow.edges) {
      const auto edge = static_cast<size_t>(crossed.edge);
      if (edge >= edges_.size()) edges_.resize(edge + 1);
      if (edges_[edge].jobs.empty()) used_.push_back(crossed.edge);
      Part& part = *edges_[edge].Of(name.second);
      part.mean += crossed.part * flow.mean;
      part.last += crossed.part * flow.last;
      part.sending = flow.sending;
      part.weight = flow.weight;
      ++part.flows;
    }
  }
  for (const int number : used_) {
    EdgeParts& edge = edges_[static_cast<size_t>(number)];
    edge.capacity = kUsable * capacity(number);
    std::erase_if(edge.jobs, [](const Part& part) { return part.flows == 0; });
    Weigh(&edge);
    edge.weights = 0;
    for (const Part& part : edge.jobs) edge.weights += part.weight;
  }
  std::erase_if(used_, [this](int edge) { return edges_[static_cast<size_t>(edge)].jobs.empty(); });
}

// Divides each tenant's weight over its jobs.
void LinkShares::Weigh(EdgeParts* edge) {
  if (edge->jobs.size() < 2) return;
  std::map<uint32_t, int> jobs;
  for (const Part& part : edge->jobs) ++jobs[part.job.tenant];
  for (Part& part : edge->jobs) part.weight /= jobs[part.job.tenant];
}

// Gives deprived jobs room for a while. A job that has less than its share may not want more, or
// may be unable to take it: its data waits in the others' queues at each of its steps and is late,
// however much it is granted. That shows when the others are held back to their shares for a while.
void LinkShares::GiveRoom(double now_seconds) {
  std::map<JobId, double> deprived;  // with what each sends in all
  for (const int number : used_) {
    const EdgeParts& edge = edges_[static_cast<size_t>(number)];
    if (edge.jobs.size() < 2) continue;
    const double unit = edge.Unit();
    for (const Part& part : edge.jobs) {
      if (IsDeprived(part, unit)) deprived.emplace(part.job, 0);
    }
  }
  std::erase_if(trials_, [&](const auto& one) {
    return !deprived.contains(one.first) &&
           now_seconds > one.second.until_seconds + kLongestRestSeconds;
  });
  if (deprived.empty()) return;
  for (const auto& [name, flow] : flows_) {
    const auto found = deprived.find(name.second);
    if (found != deprived.end()) found->second += flow.mean;
  }
  for (const auto& [job, mean] : deprived) trials_[job].Take(mean, now_seconds);
}

void LinkShares::Trial::Take(double mean, double now_seconds) {
  if (now_seconds < until_seconds) return;
  if (!gives_room) {
    gives_room = true;
    base = mean;
  } else if (mean >= kTakesRoom * base) {
    rest_seconds = 0;
    base *= kBaseCreeps;
  } else {
    gives_room = false;
    rest_seconds = std::clamp(2 * rest_seconds, kFirstRestSeconds, kLongestRestSeconds);
  }
  until_seconds = now_seconds + (gives_room ? kTrialSeconds : rest_seconds);
}

// Returns the rate that a job is taken to want of an edge.
double LinkShares::ClaimOf(const EdgeParts& edge, const Part& part, double unit) const {
  const auto trial = trials_.find(part.job);
  const bool has_room =
      trial != trials_.end() && trial->second.gives_room && IsDeprived(part, unit);
  return std::max({part.Wanted(), kLeastWanted * edge.capacity,
                   has_room ? unit * part.weight * part.sending : 0.0});
}

void LinkShares::Grant(EdgeParts* edge) {
  const double unit = edge->Unit();
  claims_.clear();
  for (const Part& part : edge->jobs) {
    claims_.push_back({ClaimOf(*edge, part, unit), part.weight});
  }
  const std::vector<double> shares = ShareOut(claims_, edge->capacity);
  const double left = edge->capacity - std::accumulate(shares.begin(), shares.end(), 0.0);
  bool any_deprived = false;
  double needed = 0;
  for (const Part& part : edge->jobs) {
    any_deprived |= IsDeprived(part, unit);
    needed += NeededBy(part, unit);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    Part& part = edge->jobs[i];
    const double had = part.granted;
    part.granted = shares[i] + std::max(left, 0.0) * part.weight / edge->weights;
    const double fair = unit * part.weight;
    const bool has_much =
        any_deprived && part.mean > kAbove * fair && part.granted < claims_[i].wanted;
    const bool has_some = part.held_back && part.mean > kBelow * fair;
    // While the others pause, or have enough, the job may have all.
    const bool has_others = needed - NeededBy(part, unit) > kLeastWanted * edge->capacity;
    part.held_back = has_others && (has_much || has_some);
    if (part.held_back) held_back_.insert(part.job);
    Adapt(&part, had);
  }
}

bool LinkShares::IsDeprived(const Part& part, double unit) {
  return part.last > 0 && part.mean < kDeprived * unit * part.weight * part.sending;
}

// Returns what a job needs others to leave to it. A job that computes and sends by turns, and has
// its share while it sends, would not gain if others were held back all the time.
double LinkShares::NeededBy(const Part& part, double unit) {
  return part.sending >= 1 || IsDeprived(part, unit) ? part.last : 0;
}

// Adapts headroom and stretch to what the job has taken lately of the grant that it `had` before.
void LinkShares::Adapt(Part* part, double had) {
  part->headroom = part->mean >= kTaken * part->granted
                       ? kMostHeadroom
                       : std::max(kHeadroomStep * part->headroom, kLeastHeadroom);
  if (!part->held_back) {
    part->stretch = 1;
  } else if (std::max(part->mean, part->last) < kUsable * had) {
    part->stretch = std::min(part->stretch * kStretchStep, kMostStretch);
  } else if (part->mean > part->granted) {
    part->stretch = std::max(part->stretch / kStretchStep, 1.0);
  }
}

// Returns the least that any of the flow's edges grants it.
double LinkShares::LimitOf(const Flow& flow, const JobId& job, bool* held_back) const {
  double least = std::numeric_limits<double>::infinity();
  *held_back = false;
  if (!held_back_.contains(job)) return flow.mean * (1 + kMostHeadroom);
  for (const CrossedEdge& crossed : *flow.edges) {
    for (const Part& part : edges_[static_cast<size_t>(crossed.edge)].jobs) {
      if (part.job != job || !part.held_back) continue;
      *held_back = true;
      const double equal = kBegins / static_cast<double>(part.flows);
      least = std::min(least, part.stretch * part.granted * std::max(flow.mean / part.mean, equal));
    }
  }
  return *held_back ? least : flow.mean * (1 + kMostHeadroom);
}

std::vector<JobLimit> LinkShares::Limits() const {
  std::vector<JobLimit> limits;
  if (held_back_.empty()) return limits;
  // A rail's limits are kept if any of its jobs is held back.
  auto next = flows_.begin();
  while (next != flows_.end()) {
    const FabricRail rail = next->first.first;
    const size_t first = limits.size();
    bool any = false;
    for (; next != flows_.end() && next->first.first == rail; ++next) {
      bool held_back = false;
      const double limit = LimitOf(next->second, next->first.second, &held_back);
      limits.push_back({rail, next->first.second, limit, held_back});
      any |= held_back;
    }
    if (!any) limits.resize(first);
  }
  return limits;
}

// Returns what a job would get if it wanted all of the edge.
double LinkShares::LeftFor(const EdgeParts& edge, const JobId& job, double weight) {
  std::vector<Claim> claims;
  int jobs = 1;  // of this tenant
  for (const Part& part : edge.jobs) {
    jobs += part.job != job && part.job.tenant == job.tenant ? 1 : 0;
  }
  claims.push_back({edge.capacity, weight / jobs});
  for (const Part& part : edge.jobs) {
    if (part.job == job) continue;
    const double share = part.job.tenant == job.tenant ? weight / jobs : part.weight;
    claims.push_back({part.Wanted(), share});
  }
  return ShareOut(claims, edge.capacity).front();
}

const std::map<int, double>& LinkShares::AvailableTo(const JobId& job, double weight,
                                                     std::span<const int> edges) {
  std::map<int, double>& in_force = available_[job];
  for (const int number : edges) {
    const EdgeParts* const edge = static_cast<size_t>(number) < edges_.size()
                                      ? &edges_[static_cast<size_t>(number)]
                                      : nullptr;
    const auto found = in_force.find(number);
    const bool alone = edge == nullptr || edge->jobs.empty() ||
                       (edge->jobs.size() == 1 && edge->jobs[0].job == job);
    const double left = alone ? 0 : LeftFor(*edge, job, weight);
    if (alone || left >= kWhole * edge->capacity) {
      if (found != in_force.end()) in_force.erase(found);
    } else if (found == in_force.end()) {
      in_force.emplace(number, left);
    } else if (std::abs(left - found->second) > kNoise * std::max(left, found->second)) {
      found->second = left;
    }
  }
  return in_force;
}

}  // namespace harmonaize
