#include "src/topology/link_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace harmonaize {
namespace {

/// Jobs send in bursts: what counts is the mean of about so long.
constexpr double kMeanSeconds = 0.3;
/// Less is nothing, bytes a second.
constexpr double kNothing = 1000;
/// Of an edge's capacity: a job that has so little of it wants this much at least, and nobody is
/// held back for what all others have if it is less.
constexpr double kLeastWanted = 0.01;
/// Who takes this much of what it is granted would take more.
constexpr double kTaken = 0.97;
constexpr double kLeastHeadroom = 0.05;
constexpr double kHeadroomStep = 0.8;
/// Who has so many times its share is held back, ...
constexpr double kAbove = 1.15;
/// ... until it has so little of it: who is let go takes what it can before that is seen.
constexpr double kBelow = 0.5;
/// Flows of one job do not all send at the same time: while together they take less than they are
/// granted, each may send more.
constexpr double kStretchStep = 1.1;
constexpr double kMostStretch = 8;
/// A flow that rests may begin with this part of an equal share.
constexpr double kBegins = 0.25;
/// Changes of what is available that are noise; what is near to all is all.
constexpr double kNoise = 0.08;
constexpr double kWhole = 0.9;

}  // namespace

std::vector<double> ShareOut(std::span<const Claim> claims, double capacity) {
  std::vector<size_t> order(claims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Who wants least for its weight is served first: what it leaves is for all others.
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
  for (auto& [number, edge] : edges_) Grant(&edge);
  std::erase_if(available_, [this](const auto& one) {
    return std::none_of(flows_.begin(), flows_.end(),
                        [&one](const auto& flow) { return flow.first.second == one.first; });
  });
}

void LinkShares::TakeMeans(std::span<const JobFlow> flows, double now_seconds) {
  const double passed = taken_seconds_ < 0 ? kMeanSeconds : now_seconds - taken_seconds_;
  taken_seconds_ = now_seconds;
  const double kept = std::exp(-passed / kMeanSeconds);
  for (auto& [name, flow] : flows_) flow.mean *= kept;
  for (const JobFlow& now : flows) {
    const auto [found, is_new] = flows_.try_emplace({now.rail, now.job});
    Flow& flow = found->second;
    flow.mean += is_new ? now.bytes_per_second : (1 - kept) * now.bytes_per_second;
    flow.weight = now.weight;
    flow.edges = now.edges;
  }
  std::erase_if(flows_, [](const auto& one) { return one.second.mean < kNothing; });
}

// What each job sends over each edge, from its flows.
void LinkShares::SumUp(const std::function<double(int edge)>& capacity) {
  for (auto& [number, edge] : edges_) {
    for (auto& [job, part] : edge.jobs) {
      part.mean = 0;
      part.flows = 0;
    }
  }
  for (const auto& [name, flow] : flows_) {
    for (const CrossedEdge& crossed : flow.edges) {
      Part& part = edges_[crossed.edge].jobs[name.second];
      part.mean += crossed.part * flow.mean;
      part.weight = flow.weight;
      ++part.flows;
    }
  }
  for (auto& [number, edge] : edges_) {
    edge.capacity = kUsable * capacity(number);
    std::erase_if(edge.jobs, [](const auto& one) { return one.second.flows == 0; });
    // The jobs of a tenant share what it has.
    std::map<uint32_t, int> jobs;
    for (const auto& [job, part] : edge.jobs) ++jobs[job.tenant];
    for (auto& [job, part] : edge.jobs) part.weight /= jobs[job.tenant];
  }
  std::erase_if(edges_, [](const auto& one) { return one.second.jobs.empty(); });
}

void LinkShares::Grant(EdgeParts* edge) {
  std::vector<Claim> claims;
  double weights = 0;
  double sent = 0;
  for (const auto& [job, part] : edge->jobs) {
    sent += part.mean;
    claims.push_back({std::max(part.Wanted(), kLeastWanted * edge->capacity), part.weight});
    weights += part.weight;
  }
  const std::vector<double> shares = ShareOut(claims, edge->capacity);
  const double left = edge->capacity - std::accumulate(shares.begin(), shares.end(), 0.0);
  size_t i = 0;
  for (auto& [job, part] : edge->jobs) {
    const double wanted = claims[i].wanted;
    part.granted = shares[i] + std::max(left, 0.0) * part.weight / weights;
    const double fair = edge->capacity * part.weight / weights;
    const bool has_much = part.mean > kAbove * fair && part.granted < wanted;
    const bool has_some = part.held_back && part.mean > kBelow * fair;
    const bool has_others = sent - part.mean > kLeastWanted * edge->capacity;
    part.held_back = has_others && (has_much || has_some);
    Adapt(&part);
    ++i;
  }
}

void LinkShares::Adapt(Part* part) {
  part->headroom = part->mean >= kTaken * part->granted
                       ? kMostHeadroom
                       : std::max(kHeadroomStep * part->headroom, kLeastHeadroom);
  if (!part->held_back) {
    part->stretch = 1;
  } else if (part->mean < kUsable * part->granted) {
    part->stretch = std::min(part->stretch * kStretchStep, kMostStretch);
  } else if (part->mean > part->granted) {
    part->stretch = std::max(part->stretch / kStretchStep, 1.0);
  }
}

// The least that any of its edges grants it.
double LinkShares::LimitOf(const Flow& flow, const JobId& job, bool* held_back) const {
  double least = std::numeric_limits<double>::infinity();
  *held_back = false;
  for (const CrossedEdge& crossed : flow.edges) {
    const Part& part = edges_.at(crossed.edge).jobs.at(job);
    if (!part.held_back) continue;
    *held_back = true;
    const double equal = kBegins / static_cast<double>(part.flows);
    least = std::min(least, part.stretch * part.granted * std::max(flow.mean / part.mean, equal));
  }
  return *held_back ? least : flow.mean * (1 + kMostHeadroom);
}

std::vector<JobLimit> LinkShares::Limits() const {
  std::vector<JobLimit> limits;
  // By rail: all jobs of a rail, if any of them is held back.
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

// If it wanted all of the edge.
double LinkShares::LeftFor(const EdgeParts& edge, const JobId& job, double weight) {
  std::vector<Claim> claims;
  int jobs = 1;  // of this tenant
  for (const auto& [other, part] : edge.jobs) jobs += other != job && other.tenant == job.tenant;
  claims.push_back({edge.capacity, weight / jobs});
  for (const auto& [other, part] : edge.jobs) {
    if (other == job) continue;
    const double share = other.tenant == job.tenant ? weight / jobs : part.weight;
    claims.push_back({part.Wanted(), share});
  }
  return ShareOut(claims, edge.capacity).front();
}

const std::map<int, double>& LinkShares::AvailableTo(const JobId& job, double weight) {
  std::map<int, double>& in_force = available_[job];
  std::erase_if(in_force, [this](const auto& one) { return !edges_.contains(one.first); });
  for (const auto& [number, edge] : edges_) {
    const double left = LeftFor(edge, job, weight);
    const auto found = in_force.find(number);
    if (left >= kWhole * edge.capacity) {
      if (found != in_force.end()) in_force.erase(found);
    } else if (found == in_force.end()) {
      in_force.emplace(number, left);
    } else if (std::abs(left - found->second) > kNoise * std::max(left, found->second)) {
      found->second = left;
    }
  }
  return in_force;
}

double LinkShares::GrantOf(int edge, const JobId& job) const {
  const auto parts = edges_.find(edge);
  if (parts == edges_.end()) return 0;
  const auto part = parts->second.jobs.find(job);
  return part != parts->second.jobs.end() && part->second.held_back ? part->second.granted : 0;
}

}  // namespace harmonaize
