#include "perf/simulator/simulation.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "perf/simulator/fair_rates.h"

namespace harmonaize::simulator {
namespace {

/// What is left of a part when it counts as sent: rounding leaves such crumbs.
constexpr double kCrumb = 1e-6;

std::vector<double> CapacitiesOf(const FabricModel& model, double payload_share) {
  std::vector<double> capacities;
  for (int edge = 0; edge < model.edges(); ++edge) {
    capacities.push_back(model.BytesPerSecond(edge) * payload_share);
  }
  return capacities;
}

class Run {
 public:
  Run(const FabricModel& model, const Candidate& candidate, const StepTable& table,
      const SimulationOptions& options)
      : model_(model),
        candidate_(candidate),
        table_(table),
        options_(options),
        rates_(CapacitiesOf(model, options.costs.payload_share)),
        waits_for_(table.waits_for),
        ends_ready_(table.messages.size(), 0),
        parts_left_(table.messages.size(), 0) {}

  Result<Simulated> ToTheEnd() {
    for (uint32_t step = 0; step < table_.steps(); ++step) {
      if (waits_for_[step] == 0) Start(step);
    }
    while (!timers_.empty() || !active_.empty()) {
      if (changed_) NewRates();
      Advance();
    }
    if (done_ != table_.steps()) {
      return InternalError("the simulation stands still: {} of {} steps are done", done_,
                           table_.steps());
    }
    return Simulated{now_, table_.messages.size(), rate_changes_};
  }

 private:
  struct Part {
    uint32_t message = 0;
    double bytes = 0;
  };
  struct Connection {
    std::deque<Part> queue;  // the first is being sent
  };
  /// The connections of a pair of hosts and a path.
  struct Bundle {
    std::vector<size_t> connections;
    std::vector<double> shares;
    double latency = 0;
  };
  enum class Due : uint8_t { kStep, kMessage };
  using Timer = std::tuple<double, uint64_t, Due, uint32_t>;  // time, order, what, number

  void Start(uint32_t step) {
    const int32_t message = table_.message_of[step];
    if (message >= 0) {
      if (++ends_ready_[static_cast<size_t>(message)] == 2) Send(static_cast<uint32_t>(message));
      return;
    }
    SetTimer(MemorySeconds(step), Due::kStep, step);
  }

  double MemorySeconds(uint32_t step) const {
    return static_cast<double>(table_.moved[step]) / options_.costs.memory_bytes_per_second;
  }

  void SetTimer(double after, Due what, uint32_t number) {
    timers_.emplace(now_ + after, timers_set_++, what, number);
  }

  void Send(uint32_t number) {
    const StepTable::Message& message = table_.messages[number];
    const Bundle& bundle = BundleOf(message);
    if (message.bytes == 0) return Sent(number);
    parts_left_[number] = static_cast<uint16_t>(bundle.connections.size());
    for (size_t i = 0; i < bundle.connections.size(); ++i) {
      const size_t connection = bundle.connections[i];
      std::deque<Part>& queue = connections_[connection].queue;
      queue.push_back({number, static_cast<double>(message.bytes) * bundle.shares[i]});
      if (queue.size() > 1) continue;
      active_.push_back(connection);
      changed_ = true;
    }
  }

  /// The last byte has left; it comes later.
  void Sent(uint32_t number) {
    const StepTable::Message& message = table_.messages[number];
    SetTimer(BundleOf(message).latency + MemorySeconds(message.receive), Due::kMessage, number);
  }

  void Finish(uint32_t step) {
    ++done_;
    for (uint64_t i = table_.first_next[step]; i < table_.first_next[step + 1]; ++i) {
      const uint32_t next = table_.next[i];
      if (--waits_for_[next] == 0) Start(next);
    }
  }

  const Bundle& BundleOf(const StepTable::Message& message) {
    const auto [place, is_new] =
        bundles_.try_emplace(std::tuple(message.from, message.to, message.path));
    if (is_new) place->second = MakeBundle(message);
    return place->second;
  }

  Bundle MakeBundle(const StepTable::Message& message) {
    std::vector<Lane> lanes;
    if (message.path >= 0 && !candidate_.lanes.empty()) {
      lanes = candidate_.lanes.at({message.from, message.to})[static_cast<size_t>(message.path)];
    } else {
      lanes = model_.Lanes(message.from, message.to, candidate_.spec.paths);
    }
    double total = 0;
    for (const Lane& lane : lanes) total += lane.weight;
    Bundle bundle;
    for (const Lane& lane : lanes) {
      Route route = HashedRoute(model_, message.from, message.to, lane, options_.draw);
      bundle.latency =
          std::max(bundle.latency, options_.costs.message_seconds +
                                       model_.LatencyOf(route, options_.costs.link_seconds));
      bundle.connections.push_back(rates_.Add(std::move(route)));
      connections_.emplace_back();
      bundle.shares.push_back(lane.weight / total);
    }
    return bundle;
  }

  void NewRates() {
    current_ = rates_.Of(active_);
    changed_ = false;
    ++rate_changes_;
  }

  /// To the next end of a part or timer, and what follows from it.
  void Advance() {
    double next = timers_.empty() ? std::numeric_limits<double>::infinity()
                                  : std::get<0>(timers_.top());
    for (size_t i = 0; i < active_.size(); ++i) {
      next = std::min(next, now_ + connections_[active_[i]].queue[0].bytes / current_[i]);
    }
    const double passed = next - now_;
    now_ = next;
    // What ends within a billionth of the time ends together.
    const double soon = now_ * 1e-9;
    std::vector<uint32_t> sent;
    std::vector<size_t> still;
    for (size_t i = 0; i < active_.size(); ++i) {
      Part& part = connections_[active_[i]].queue[0];
      part.bytes -= passed * current_[i];
      if (part.bytes > kCrumb + soon * current_[i]) {
        still.push_back(active_[i]);
        continue;
      }
      if (--parts_left_[part.message] == 0) sent.push_back(part.message);
      connections_[active_[i]].queue.pop_front();
      if (connections_[active_[i]].queue.empty()) {
        changed_ = true;
      } else {
        still.push_back(active_[i]);
      }
    }
    // Rates go by places in active_; they stay while nobody comes or goes.
    active_ = std::move(still);
    for (const uint32_t message : sent) Sent(message);
    while (!timers_.empty() && std::get<0>(timers_.top()) <= now_ + soon) {
      const auto [time, order, what, number] = timers_.top();
      timers_.pop();
      if (what == Due::kStep) {
        Finish(number);
        continue;
      }
      Finish(table_.messages[number].send);
      Finish(table_.messages[number].receive);
    }
  }

  const FabricModel& model_;
  const Candidate& candidate_;
  const StepTable& table_;
  const SimulationOptions& options_;
  FairRates rates_;
  std::vector<uint32_t> waits_for_;   // by step
  std::vector<uint8_t> ends_ready_;   // by message
  std::vector<uint16_t> parts_left_;  // by message
  std::map<std::tuple<int, int, int>, Bundle> bundles_;
  std::vector<Connection> connections_;
  std::vector<size_t> active_;
  std::vector<double> current_;  // by place in active_
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t timers_set_ = 0;
  uint64_t rate_changes_ = 0;
  size_t done_ = 0;
  double now_ = 0;
  bool changed_ = false;
};

}  // namespace

Result<Simulated> Simulate(const FabricModel& model, const Candidate& candidate,
                           const Outline& outline, uint64_t bytes,
                           const SimulationOptions& options) {
  const Result<StepTable> table = MakeStepTable(outline, bytes);
  if (!table.ok()) return table.status();
  return Run(model, candidate, *table, options).ToTheEnd();
}

}  // namespace harmonaize::simulator
