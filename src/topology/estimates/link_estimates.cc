#include "src/topology/estimates/link_estimates.h"

#include <algorithm>
#include <limits>

namespace harmonaize {
namespace {

/// A flow that had something to send for at least this fraction of the interval counts as busy.
constexpr double kBusy = 0.8;
/// Shorter waits, in seconds, count as no queue: switches and schedulers cause as much.
constexpr double kQueueSeconds = 200e-6;
/// An edge may hold a flow up if each of its flows waits for at least this fraction of that flow's
/// wait.
constexpr double kQueueShare = 0.5;
/// Fraction of the way to a new measurement that an estimate moves at once; confidence likewise.
constexpr double kStep = 0.5;
/// A measurement that is off by more than this factor shows a change, not noise.
constexpr double kJump = 1.5;

}  // namespace

LinkEstimates::LinkEstimates(const Fabric& fabric) {
  for (const Edge& edge : fabric.Edges()) {
    states_.push_back({.stated = edge.bytes_per_second, .estimate = edge.bytes_per_second});
  }
}

std::vector<LinkEstimates::Load> LinkEstimates::LoadsOf(std::span<const FlowSample> flows,
                                                        std::span<const EdgeCount> counts) const {
  std::vector<Load> loads(states_.size());
  for (Load& load : loads) load.least_queue = std::numeric_limits<double>::infinity();
  for (const FlowSample& flow : flows) {
    for (const int edge : flow.edges) {
      Load& load = loads[static_cast<size_t>(edge)];
      load.carried += flow.bytes_per_second;
      if (flow.whole) load.busy = std::max(load.busy, flow.busy);
      if (flow.queue_seconds < 0) continue;
      load.least_queue = std::min(load.least_queue, flow.queue_seconds);
    }
  }
  for (const EdgeCount& count : counts) {
    if (count.edge < 0 || count.edge >= edges()) continue;
    Load& load = loads[static_cast<size_t>(count.edge)];
    const State& state = states_[static_cast<size_t>(count.edge)];
    load.full = count.bytes_per_second >= kFullShare * state.stated;
    load.clear = count.queue_seconds >= 0 && count.queue_seconds < kQueueSeconds;
  }
  return loads;
}

// Marks the edges that may hold up a flow, unless one of them is as full as it can be. If that one
// is full with our traffic, no edge is to blame; if with others' traffic, that edge alone.
void LinkEstimates::Blame(const FlowSample& flow, const std::vector<Load>& loads,
                          std::vector<char>* guilty) const {
  std::vector<int> suspects;
  for (const int edge : flow.edges) {
    const Load& load = loads[static_cast<size_t>(edge)];
    if (load.clear || load.least_queue < kQueueShare * flow.queue_seconds) continue;
    if (load.carried >= kFullShare * states_[static_cast<size_t>(edge)].stated) return;
    if (load.full) {
      suspects.assign(1, edge);
      break;
    }
    suspects.push_back(edge);
  }
  for (const int edge : suspects) (*guilty)[static_cast<size_t>(edge)] = 1;
}

void LinkEstimates::Learn(State* state, double measured, double now_seconds) const {
  const bool known =
      state->seen_seconds >= 0 && now_seconds - state->seen_seconds < kForgottenSeconds;
  const bool jumps = measured > kJump * state->estimate || measured < state->estimate / kJump;
  const double step = known && !jumps ? kStep : 1;
  state->estimate += step * (measured - state->estimate);
  state->estimate = std::min(state->estimate, state->stated);
  state->confidence = known ? state->confidence + kStep * (1 - state->confidence) : kStep;
  state->seen_seconds = now_seconds;
}

void LinkEstimates::Take(std::span<const FlowSample> flows, double now_seconds,
                         std::span<const EdgeCount> counts) {
  const std::vector<Load> loads = LoadsOf(flows, counts);
  std::vector<char> guilty(states_.size(), 0);
  for (const FlowSample& flow : flows) {
    if (!flow.whole || flow.busy < kBusy || flow.queue_seconds < kQueueSeconds) continue;
    Blame(flow, loads, &guilty);
  }
  for (size_t e = 0; e < states_.size(); ++e) {
    State& state = states_[e];
    const double carried = std::min(loads[e].carried, state.stated);
    if (guilty[e] != 0) {
      state.full = true;
      // While there was nothing to send the edge could have carried more.
      Learn(&state, carried / std::max(loads[e].busy, kBusy), now_seconds);
    } else if (carried > state.estimate || carried >= kFullShare * state.stated) {
      // The edge carries that much, whatever was estimated.
      state.full = false;
      Learn(&state, std::max(carried, state.estimate), now_seconds);
      state.estimate = std::max(state.estimate, carried);
    }
  }
}

void LinkEstimates::TakeProbe(const std::vector<int>& edges, double bytes_per_second,
                              double now_seconds) {
  for (const int edge : edges) {
    State& state = states_[static_cast<size_t>(edge)];
    const double measured = std::min(bytes_per_second, state.stated);
    const EdgeEstimate before = At(edge, now_seconds);
    // The edges carry at least this. Whether they could carry more is known only of the narrowest.
    if (measured <= before.bytes_per_second) continue;
    state.full = false;
    Learn(&state, measured, now_seconds);
  }
}

EdgeEstimate LinkEstimates::At(int edge, double now_seconds) const {
  const State& state = states_[static_cast<size_t>(edge)];
  if (state.seen_seconds < 0) {
    return {state.stated, 0, std::numeric_limits<double>::infinity(), false};
  }
  const double age = now_seconds - state.seen_seconds;
  if (age >= kForgottenSeconds) return {state.stated, 0, age, false};
  return {state.estimate, state.confidence * (1 - age / kForgottenSeconds), age, state.full};
}

}  // namespace harmonaize
