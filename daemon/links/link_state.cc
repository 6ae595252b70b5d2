#include "daemon/links/link_state.h"

#include <algorithm>
#include <cmath>

namespace harmonaize::daemon {
namespace {

/// Age, in seconds, up to which a report counts: a host that has said nothing for longer sends
/// nothing.
constexpr double kRecentSeconds = 0.25;
/// Relative difference from the rate in force up to which an estimate is noise.
constexpr double kTolerance = 0.06;
/// Number of intervals in a row in which an estimate has to differ.
constexpr int kIntervals = 2;
/// Fraction of an edge's stated rate above which the edge counts as carrying all of it.
constexpr double kWhole = 0.9;
/// Fraction of the stated rate below which the edge counts as carrying kNothing.
constexpr double kLeast = 1.0 / 64;
/// Fraction of the stated rate that is in force for an edge that carries next to nothing.
constexpr double kNothing = 1.0 / 1024;
/// Ratio of neighbouring rates in force between these: finer steps would make new models for
/// nothing.
constexpr double kStep = 1.04;
/// Time, in seconds, in which a slow edge has held up no flow, after which it is probed.
constexpr double kQuietSeconds = 0.3;
/// Pause, in seconds, before the first probe of an edge whose rate in force has changed.
constexpr double kFirstPauseSeconds = 0.5;
/// Longest pause, in seconds, to which it doubles while the edge stays slow.
constexpr double kLongPauseSeconds = 2;
/// Longest pause, in seconds, to which it doubles when probes promise more than flows then get.
constexpr double kLongestPauseSeconds = 32;
/// Time, in seconds, after which a promise that has been kept was true.
constexpr double kKeptSeconds = 5;
/// Most edges that plans are told of: the slowest.
constexpr size_t kMostRates = 256;

double Rounded(double share) {
  if (share >= kWhole) return 1;
  if (share < kLeast) return kNothing;
  return std::pow(kStep, std::round(std::log(share) / std::log(kStep)));
}

bool Differs(double one, double other) {
  return std::abs(one - other) > kTolerance * std::max(one, other);
}

}  // namespace

std::string DescribeRates(const FabricModel& model, const EdgeRates& rates) {
  // Most links that the text names.
  constexpr size_t kMostNamed = 3;
  if (rates.empty()) return "all links carry what the fabric states";
  const auto share = [&model](const EdgeRate& one) {
    return one.bytes_per_second / model.BytesPerSecond(one.edge);
  };
  std::vector<EdgeRate> slowest = rates;
  std::sort(slowest.begin(), slowest.end(),
            [&](const EdgeRate& a, const EdgeRate& b) { return share(a) < share(b); });
  std::string text;
  for (size_t i = 0; i < std::min(slowest.size(), kMostNamed); ++i) {
    const EdgeRate& one = slowest[i];
    const Edge ends = model.fabric().EdgeAt(one.edge);
    const std::string carries =
        share(one) <= kNothing ? "nothing"
                               : fmt::format("{:.0f} of {:.0f} Mbit/s", one.bytes_per_second * 8e-6,
                                             ends.bytes_per_second * 8e-6);
    text += fmt::format("{}{} to {} carries {}", i == 0 ? "" : ", ",
                        model.fabric().nodes[static_cast<size_t>(ends.from)].name,
                        model.fabric().nodes[static_cast<size_t>(ends.to)].name, carries);
  }
  if (slowest.size() > kMostNamed) {
    text += fmt::format(", and {} more are slow", slowest.size() - kMostNamed);
  }
  return text;
}

bool AnyIsCut(const FabricModel& model, const EdgeRates& rates) {
  return std::any_of(rates.begin(), rates.end(), [&](const EdgeRate& one) {
    return one.bytes_per_second <= kNothing * model.BytesPerSecond(one.edge);
  });
}

LinkState::LinkState(std::shared_ptr<const FabricModel> model)
    : model_(std::move(model)), rails_of_hosts_(model_->fabric()), estimates_(model_->fabric()) {}

void LinkState::Take(const TrafficMessage& traffic, double now_seconds) {
  if (traffic.host >= model_->hosts()) return;
  Report report{.at_seconds = now_seconds, .flows = {}, .rails = {}, .arrivals = {}, .counts = {}};
  for (const TrafficFlow& flow : traffic.flows) {
    const std::optional<Lane> lane = rails_of_hosts_.LaneOf(traffic.host, flow.peer, flow.rail);
    if (!lane.has_value() || flow.peer == traffic.host) continue;
    FabricModel::CertainRoute route = model_->CertainRouteOf(traffic.host, flow.peer, *lane);
    if (flow.astray) {
      if (route.whole)
        cut_.NoteAstray({traffic.host, flow.peer, flow.rail}, route.edges, now_seconds);
      continue;
    }
    if (flow.bytes_per_second > 0) cut_.NoteCarried(route.edges, now_seconds);
    if (flow.arrival_queue >= 0) {
      report.arrivals[{flow.peer, traffic.host, flow.rail}] = flow.arrival_queue;
    }
    report.flows.push_back({.edges = std::move(route.edges),
                            .whole = route.whole,
                            .bytes_per_second = flow.bytes_per_second,
                            .busy = flow.busy});
    report.rails.push_back({traffic.host, flow.peer, flow.rail});
  }
  report.counts = CountsOf(traffic);
  reports_[traffic.host] = std::move(report);
}

std::vector<EdgeCount> LinkState::CountsOf(const TrafficMessage& traffic) const {
  std::vector<EdgeCount> counts;
  const Node& host = model_->NodeOf(traffic.host);
  for (const TrafficNic& nic : traffic.nics) {
    if (nic.nic >= static_cast<int>(host.nics.size())) continue;
    const int out = model_->EdgeOut(traffic.host, nic.nic);
    const double queue = nic.queued_bytes < 0 ? -1 : nic.queued_bytes / model_->BytesPerSecond(out);
    counts.push_back({out, nic.sent, queue});
    counts.push_back({out ^ 1, nic.received, -1});
  }
  return counts;
}

// Merges recent counts by edge. Both ends of a cable between two hosts tell of it, and one of them
// of its queue.
std::vector<EdgeCount> LinkState::RecentCounts(double now_seconds) const {
  std::map<int, EdgeCount> counts;
  for (const auto& [host, report] : reports_) {
    if (now_seconds - report.at_seconds > kRecentSeconds) continue;
    for (const EdgeCount& count : report.counts) {
      const auto [found, is_new] = counts.emplace(count.edge, count);
      if (!is_new && count.queue_seconds >= 0) found->second = count;
    }
  }
  std::vector<EdgeCount> list;
  for (const auto& [edge, count] : counts) list.push_back(count);
  return list;
}

// Returns the seconds that a flow waits in queues, as its receiver sees it; < 0 if that is not
// known.
double LinkState::QueueOf(const FabricRail& rail, double now_seconds) const {
  const auto report = reports_.find(rail.to);
  if (report == reports_.end()) return -1;
  if (now_seconds - report->second.at_seconds > kRecentSeconds) return -1;
  const auto found = report->second.arrivals.find(rail);
  return found == report->second.arrivals.end() ? -1 : found->second;
}

std::vector<FlowSample> LinkState::Recent(double now_seconds) const {
  std::vector<FlowSample> flows;
  for (const auto& [host, report] : reports_) {
    if (now_seconds - report.at_seconds > kRecentSeconds) continue;
    for (size_t i = 0; i < report.flows.size(); ++i) {
      flows.push_back(report.flows[i]);
      flows.back().queue_seconds = QueueOf(report.rails[i], now_seconds);
    }
  }
  return flows;
}

// Notes, for edges that are slow or may soon be, a rail by which one gets there.
void LinkState::NoteWitnesses(double now_seconds) {
  for (const auto& [host, report] : reports_) {
    if (now_seconds - report.at_seconds > kRecentSeconds) continue;
    for (size_t i = 0; i < report.flows.size(); ++i) {
      if (!report.flows[i].whole) continue;
      for (const int edge : report.flows[i].edges) {
        const auto found = slow_.find(edge);
        if (found != slow_.end()) found->second.witness = report.rails[i];
      }
    }
  }
}

bool LinkState::Settle(double now_seconds) {
  if (settled_seconds_ >= 0 && now_seconds - settled_seconds_ < 0.9 * kIntervalSeconds) {
    return false;
  }
  settled_seconds_ = now_seconds;
  estimates_.Take(Recent(now_seconds), now_seconds, RecentCounts(now_seconds));
  bool changed = SettleCut(now_seconds);
  for (int edge = 0; edge < estimates_.edges(); ++edge) changed |= Follow(edge, now_seconds);
  NoteWitnesses(now_seconds);
  std::erase_if(slow_, [now_seconds](const auto& one) {
    const Slow& slow = one.second;
    const bool kept = now_seconds - slow.raised_seconds > kKeptSeconds;
    return slow.share == 1 && slow.deviating == 0 && kept;
  });
  if (changed) MakeRates();
  return changed;
}

// Finds out which edges are cut. An edge that is mended is forgotten: what was thought of it while
// it was being cut is not true any more.
bool LinkState::SettleCut(double now_seconds) {
  const std::set<int> before = cut_.edges();
  if (!cut_.Settle(now_seconds)) return false;
  for (const int edge : before) {
    if (!cut_.edges().contains(edge)) slow_.erase(edge);
  }
  return true;
}

// Makes the rate in force of an edge follow its estimate, if the two have differed for long enough.
// It is lowered when flows are held up by the edge, and raised when the edge carries more.
bool LinkState::Follow(int edge, double now_seconds) {
  const EdgeEstimate estimate = estimates_.At(edge, now_seconds);
  if (estimate.age_seconds > 0) return false;
  const auto found = slow_.find(edge);
  const double in_force = found == slow_.end() ? 1 : found->second.share;
  const double share = Rounded(estimate.bytes_per_second / model_->BytesPerSecond(edge));
  const bool lower = share < in_force && estimate.full;
  const bool differs = Differs(share, in_force) && (lower || share > in_force);
  if (found == slow_.end() && !differs) return false;
  Slow& slow = slow_[edge];
  if (estimate.full) slow.blamed_seconds = now_seconds;
  if (!differs) {
    slow.deviating = 0;
    return false;
  }
  const int way = lower ? 1 : -1;
  slow.deviating = slow.deviating * way > 0 ? slow.deviating + way : way;
  if (std::abs(slow.deviating) < kIntervals) return false;
  PutInForce(&slow, share, now_seconds);
  return true;
}

void LinkState::PutInForce(Slow* slow, double share, double now_seconds) {
  const bool broken_promise =
      share < slow->share && now_seconds - slow->raised_seconds <= kKeptSeconds;
  slow->share = share;
  slow->deviating = 0;
  slow->probe_pause_seconds = broken_promise
                                  ? std::min(2 * slow->probe_pause_seconds, kLongestPauseSeconds)
                                  : kFirstPauseSeconds;
  slow->next_probe_seconds = now_seconds + slow->probe_pause_seconds;
}

// Plans the next probe, whatever this one will find.
void LinkState::PauseProbes(Slow* slow, double now_seconds) {
  const double longer = std::min(2 * slow->probe_pause_seconds, kLongPauseSeconds);
  slow->probe_pause_seconds = std::max(slow->probe_pause_seconds, longer);
  slow->next_probe_seconds = now_seconds + slow->probe_pause_seconds;
}

void LinkState::MakeRates() {
  std::vector<std::pair<double, int>> slowest;
  for (const int edge : cut_.edges()) slowest.emplace_back(kNothing, edge);
  for (const auto& [edge, slow] : slow_) {
    if (slow.share < 1 && !cut_.edges().contains(edge)) slowest.emplace_back(slow.share, edge);
  }
  std::sort(slowest.begin(), slowest.end());
  if (slowest.size() > kMostRates) slowest.resize(kMostRates);
  rates_.clear();
  for (const auto& [share, edge] : slowest) {
    rates_.push_back({edge, share * model_->BytesPerSecond(edge)});
  }
  std::sort(rates_.begin(), rates_.end(),
            [](const EdgeRate& a, const EdgeRate& b) { return a.edge < b.edge; });
}

// ---------------------------------------------------------------------------------------------
// Probes

std::optional<FabricRail> LinkState::NextProbe(double now_seconds) {
  for (auto& [edge, slow] : slow_) {
    const bool due = slow.share < 1 && !cut_.edges().contains(edge) && slow.witness.has_value() &&
                     now_seconds >= slow.next_probe_seconds &&
                     now_seconds - slow.blamed_seconds >= kQuietSeconds;
    if (!due) continue;
    const FabricRail probe = *slow.witness;
    // The same rail may lead over other edges that are thought to be slow: one probe is for all of
    // them.
    const std::optional<Lane> lane = rails_of_hosts_.LaneOf(probe.from, probe.to, probe.rail);
    for (const int other : model_->CertainRouteOf(probe.from, probe.to, *lane).edges) {
      const auto found = slow_.find(other);
      if (found != slow_.end()) PauseProbes(&found->second, now_seconds);
    }
    return probe;
  }
  return {};
}

bool LinkState::TakeProbe(const FabricRail& rail, double bytes_per_second, double now_seconds) {
  const std::optional<Lane> lane = rails_of_hosts_.LaneOf(rail.from, rail.to, rail.rail);
  if (!lane.has_value()) return false;
  const std::vector<int> edges = model_->CertainRouteOf(rail.from, rail.to, *lane).edges;
  bool changed = false;
  for (const int edge : edges) {
    const auto found = slow_.find(edge);
    const double share = Rounded(bytes_per_second / model_->BytesPerSecond(edge));
    if (found == slow_.end() || share <= found->second.share) continue;
    if (!Differs(share, found->second.share)) continue;
    found->second.share = share;
    found->second.deviating = 0;
    found->second.raised_seconds = now_seconds;
    changed = true;
    // A link that has recovered in one direction may have done so in the other.
    const auto back = slow_.find(edge ^ 1);
    if (back != slow_.end() && back->second.probe_pause_seconds <= kLongPauseSeconds) {
      back->second.next_probe_seconds = now_seconds;
    }
  }
  estimates_.TakeProbe(edges, bytes_per_second, now_seconds);
  if (changed) MakeRates();
  return changed;
}

// Returns what each edge carries. A NIC counts everybody's traffic, our flows tell of ours alone.
std::vector<double> LinkState::Carried(double now_seconds) const {
  std::vector<double> carried(static_cast<size_t>(estimates_.edges()));
  for (const FlowSample& flow : Recent(now_seconds)) {
    for (const int edge : flow.edges) carried[static_cast<size_t>(edge)] += flow.bytes_per_second;
  }
  for (const EdgeCount& count : RecentCounts(now_seconds)) {
    double& known = carried[static_cast<size_t>(count.edge)];
    known = std::max(known, count.bytes_per_second);
  }
  return carried;
}

std::vector<EdgeState> LinkState::Edges(double now_seconds) const {
  const std::vector<double> carried = Carried(now_seconds);
  std::vector<EdgeState> edges;
  for (int edge = 0; edge < estimates_.edges(); ++edge) {
    const EdgeEstimate estimate = estimates_.At(edge, now_seconds);
    const auto found = slow_.find(edge);
    const bool cut = cut_.edges().contains(edge);
    const bool was_seen = found != slow_.end() || cut || std::isfinite(estimate.age_seconds);
    const double carries = carried[static_cast<size_t>(edge)];
    if (!was_seen && carries == 0) continue;
    const double stated = model_->BytesPerSecond(edge);
    const double share = cut ? 0 : found == slow_.end() ? 1 : found->second.share;
    edges.push_back({edge, stated, share * stated, carries, estimate});
  }
  return edges;
}

}  // namespace harmonaize::daemon
