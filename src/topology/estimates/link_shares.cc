#include "src/topology/estimates/link_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace harmonaize {
namespace {

/// Time constant of the mean rate, in seconds: jobs send in bursts, so a mean of about this long
/// counts.
constexpr double kMeanSeconds = 0.3;
/// Mean rates below this many bytes a second count as nothing.
constexpr double kNothing = 1000;
/// Fraction of its share from which on one takes all that an edge has left.
constexpr double kTakesAll = 0.5;
/// An edge over which at least this fraction of its usable capacity goes is full.
constexpr double kFull = 0.85;
/// A flow that has something to send for at least this fraction of the time would send more.
constexpr double kBusyRail = 0.9;
/// Relative changes of the available rate up to this are noise.
constexpr double kNoise = 0.08;
/// Available capacity of at least this fraction of the edge's counts as all of it.
constexpr double kWhole = 0.9;

}  // namespace

void LinkShares::Take(std::span<const JobFlow> flows,
                      const std::function<double(int edge)>& capacity, double now_seconds) {
  TakeMeans(flows, now_seconds);
  SumUp(capacity);
  FindDeprived(now_seconds);
  held_back_.clear();
  floors_.clear();
  for (const int number : used_) {
    EdgeShares& edge = edges_[static_cast<size_t>(number)];
    edge.Grant(trials_);
    NoteHeldBack(edge);
    NoteFloors(edge);
  }
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
    const auto [found, is_new] = flows_.try_emplace({now.job, now.rail});
    SentFlow& flow = found->second;
    flow.mean += is_new ? now.bytes_per_second : (1 - kept) * now.bytes_per_second;
    flow.last = now.bytes_per_second;
    flow.sending = now.sending;
    flow.busy = now.busy;
    flow.weight = now.weight;
    flow.terms = now.terms;
    flow.edges = now.edges;
  }
  std::erase_if(flows_, [](const auto& one) { return one.second.mean < kNothing; });
  std::erase_if(available_, [this](const auto& one) {
    const auto first = flows_.lower_bound({one.first, FabricRail{}});
    return first == flows_.end() || first->first.first != one.first;
  });
}

// Sums up, from the flows, what each sharer sends over each edge.
void LinkShares::SumUp(const std::function<double(int edge)>& capacity) {
  for (const int edge : used_) edges_[static_cast<size_t>(edge)].Begin();
  for (const auto& [name, flow] : flows_) {
    const Sharer sharer = Sharer::Of(name.first.tenant, flow.terms);
    for (const CrossedEdge& crossed : *flow.edges) {
      const auto edge = static_cast<size_t>(crossed.edge);
      if (edge >= edges_.size()) edges_.resize(edge + 1);
      if (edges_[edge].empty()) used_.push_back(crossed.edge);
      edges_[edge].Add(sharer, flow, crossed.part);
    }
  }
  for (const int edge : used_) {
    edges_[static_cast<size_t>(edge)].FindFair(kUsable * capacity(edge));
  }
  std::erase_if(used_, [this](int edge) { return edges_[static_cast<size_t>(edge)].empty(); });
}

// Finds out who is deprived on an edge that others use, and has the trials take it in.
void LinkShares::FindDeprived(double now_seconds) {
  std::map<Sharer, DeprivedSharer> deprived;
  for (const int number : used_) {
    const EdgeShares& edge = edges_[static_cast<size_t>(number)];
    if (edge.parts().size() < 2) continue;
    for (const auto& [sharer, part] : edge.parts()) {
      if (!part.IsDeprived()) continue;
      deprived[sharer].of_floor |= part.IsDeprivedOfFloor();
      deprived[sharer].is_preferred |= part.IsPreferred();
    }
  }
  for (const auto& [name, flow] : flows_) {
    const auto found = deprived.find(Sharer::Of(name.first.tenant, flow.terms));
    if (found != deprived.end()) found->second.mean += flow.mean;
  }
  trials_.Take(deprived, now_seconds);
}

void LinkShares::NoteHeldBack(const EdgeShares& edge) {
  for (const auto& [sharer, part] : edge.parts()) {
    if (part.held_back || part.capped) held_back_.insert(sharer);
  }
}

// Notes how the floors on an edge fare. A job that has less than its floor may not want more. But
// where the others are held back for it, and the edge is full all the same, or the job has data
// waiting, it cannot have it; and where the edge carries less than was promised, who takes all that
// is left would have its floor.
void LinkShares::NoteFloors(const EdgeShares& edge) {
  double sent = 0;
  for (const auto& [sharer, part] : edge.parts()) sent += part.last;
  for (const auto& [sharer, part] : edge.parts()) {
    if (part.floor <= 0 || part.last <= 0) continue;
    FloorReport report{.state = FloorState::kKept, .had = part.mean};
    const bool held_up = sent >= kFull * edge.capacity() || part.busy >= kBusyRail;
    const bool takes_all = part.LacksRoomForFloor() && part.mean > kTakesAll * part.fair;
    if (held_up && part.MissesFloor()) {
      const bool had_room = EdgeShares::HasRoom(sharer, part, trials_);
      report.state = had_room || takes_all ? FloorState::kMissed : FloorState::kUnknown;
    }
    const auto [known, is_new] = floors_.try_emplace(sharer, report);
    const bool worse =
        report.state == FloorState::kMissed ||
        (report.state == FloorState::kUnknown && known->second.state == FloorState::kKept);
    if (!is_new && worse) known->second = report;
  }
}

// Returns the least that any of the flow's edges lets it send.
double LinkShares::LimitOf(const Flows::value_type& flow,
                           double (EdgeShares::*limit)(const Sharer&, double) const) const {
  const auto& [name, sent] = flow;
  const Sharer sharer = Sharer::Of(name.first.tenant, sent.terms);
  double least = std::numeric_limits<double>::infinity();
  if (!held_back_.contains(sharer)) return least;
  for (const CrossedEdge& crossed : *sent.edges) {
    const EdgeShares& edge = edges_[static_cast<size_t>(crossed.edge)];
    least = std::min(least, (edge.*limit)(sharer, sent.mean));
  }
  return least;
}

// A flow that is not limited counts with the most that it is expected to send.
std::vector<ShareLimit> LinkShares::Limits() const {
  if (held_back_.empty()) return {};
  struct Sum {
    double bytes_per_second = 0;
    bool is_limit = false;
  };
  std::map<std::tuple<FabricRail, uint32_t, uint64_t>, Sum> sums;
  const auto add = [](Sum* sum, double limit, double expected) {
    const bool limited = limit < std::numeric_limits<double>::infinity();
    sum->bytes_per_second += limited ? limit : expected;
    sum->is_limit |= limited;
  };
  for (const auto& flow : flows_) {
    const auto& [name, sent] = flow;
    const auto& [job, rail] = name;
    const double expected = sent.mean * (1 + EdgeShares::kMostHeadroom);
    add(&sums[{rail, job.tenant, 0}], LimitOf(flow, &EdgeShares::ShareLimitOf), expected);
    if (sent.terms.owner == 0) continue;
    add(&sums[{rail, job.tenant, sent.terms.owner}], LimitOf(flow, &EdgeShares::CapLimitOf),
        expected);
  }
  std::vector<ShareLimit> limits;
  for (const auto& [name, sum] : sums) {
    const auto& [rail, tenant, owner] = name;
    if (sum.is_limit) limits.push_back({rail, tenant, owner, sum.bytes_per_second});
  }
  return limits;
}

std::map<JobId, size_t> LinkShares::HeldBack() const {
  std::map<JobId, size_t> rails;
  for (const auto& flow : flows_) {
    const double least =
        std::min(LimitOf(flow, &EdgeShares::ShareLimitOf), LimitOf(flow, &EdgeShares::CapLimitOf));
    if (least < std::numeric_limits<double>::infinity()) ++rails[flow.first.first];
  }
  return rails;
}

// Returns what a communicator sends over each edge.
std::map<int, double> LinkShares::MeansOf(const JobId& job) const {
  std::map<int, double> means;
  for (auto flow = flows_.lower_bound({job, FabricRail{}});
       flow != flows_.end() && flow->first.first == job; ++flow) {
    for (const CrossedEdge& crossed : *flow->second.edges) {
      means[crossed.edge] += crossed.part * flow->second.mean;
    }
  }
  return means;
}

const std::map<int, double>& LinkShares::AvailableTo(const JobId& job, double weight,
                                                     const LinkTerms& terms,
                                                     std::span<const int> edges) {
  std::map<int, double>& in_force = available_[job];
  const std::map<int, double> own = MeansOf(job);
  const Sharer sharer = Sharer::Of(job.tenant, terms);
  for (const int number : edges) {
    const auto mean = own.find(number);
    const double own_mean = mean == own.end() ? 0 : mean->second;
    const bool is_known = static_cast<size_t>(number) < edges_.size();
    const double left =
        is_known ? edges_[static_cast<size_t>(number)].LeftFor(sharer, weight, own_mean) : 0;
    const double capacity = is_known ? edges_[static_cast<size_t>(number)].capacity() : 0;
    const auto found = in_force.find(number);
    if (left >= kWhole * capacity) {
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
