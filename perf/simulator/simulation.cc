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

/// Bytes left of a part that counts as sent: rounding leaves such crumbs.
constexpr double kCrumb = 1e-6;
// Most routes of a rail that is spread.
constexpr size_t kMostSpreadRoutes = 64;

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
        state_(table.messages.size(), 0),
        parts_left_(table.messages.size(), 0),
        memory_free_(static_cast<size_t>(model.hosts()), 0),
        hands_free_(static_cast<size_t>(model.hosts()), 0) {}

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
  // Flags of a message's state.
  static constexpr uint8_t kSendReady = 1;
  static constexpr uint8_t kReceiveReady = 2;
  static constexpr uint8_t kArrived = 4;

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
  enum class Due : uint8_t { kStep, kGo, kCome };
  using Timer = std::tuple<double, uint64_t, Due, uint32_t>;  // time, order, what, number

  void Start(uint32_t step) {
    const int32_t message = table_.message_of[step];
    if (message >= 0) {
      EndIsReady(static_cast<uint32_t>(message), step);
      return;
    }
    SetTimer(InMemory(step), Due::kStep, step);
  }

  void EndIsReady(uint32_t number, uint32_t step) {
    const StepTable::Message& message = table_.messages[number];
    const bool eager = message.bytes <= options_.costs.eager_bytes;
    const bool sends = step == message.send;
    uint8_t& state = state_[number];
    state |= sends ? kSendReady : kReceiveReady;
    const bool both = (state & kSendReady) != 0 && (state & kReceiveReady) != 0;
    if (eager ? sends : both) return Send(number);
    if (!sends && (state & kArrived) != 0) Receive(number);
  }

  /// Returns when a step's host has done it in memory, if it begins now.
  double InMemory(uint32_t step) {
    const double seconds =
        static_cast<double>(table_.moved[step]) / options_.costs.memory_bytes_per_second;
    return Take(&memory_free_[static_cast<size_t>(table_.host_of[step])], seconds);
  }

  double Handled(int host, const StepTable::Message& message) {
    const auto bytes = static_cast<double>(message.bytes);
    return Take(&hands_free_[static_cast<size_t>(host)],
                options_.costs.HandlingSeconds(bytes) + options_.costs.WireSeconds(bytes));
  }

  double Take(double* free, double seconds) const {
    *free = std::max(*free, now_) + seconds;
    return *free;
  }

  void SetTimer(double at, Due what, uint32_t number) {
    timers_.emplace(at, timers_set_++, what, number);
  }

  void Send(uint32_t number) {
    const StepTable::Message& message = table_.messages[number];
    SetTimer(Handled(message.from, message), Due::kGo, number);
  }

  void Go(uint32_t number) {
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

  /// Handles a message whose last byte has left; it arrives later.
  void Sent(uint32_t number) {
    SetTimer(now_ + BundleOf(table_.messages[number]).latency, Due::kCome, number);
  }

  void Come(uint32_t number) {
    state_[number] |= kArrived;
    Finish(table_.messages[number].send);
    if ((state_[number] & kReceiveReady) != 0) Receive(number);
  }

  void Receive(uint32_t number) {
    const StepTable::Message& message = table_.messages[number];
    SetTimer(std::max(Handled(message.to, message), InMemory(message.receive)), Due::kStep,
             message.receive);
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
      if (!lane.spread) {
        AddConnection(HashedRoute(model_, message.from, message.to, lane, options_.draw),
                      lane.weight / total, &bundle);
        continue;
      }
      for (auto& [route, share] :
           SpreadRoutes(model_, message.from, message.to, lane, kMostSpreadRoutes)) {
        AddConnection(std::move(route), share * lane.weight / total, &bundle);
      }
    }
    return bundle;
  }

  void AddConnection(Route route, double share, Bundle* bundle) {
    bundle->latency =
        std::max(bundle->latency, options_.costs.message_seconds +
                                      model_.LatencyOf(route, options_.costs.link_seconds));
    bundle->connections.push_back(rates_.Add(std::move(route)));
    connections_.emplace_back();
    bundle->shares.push_back(share);
  }

  void NewRates() {
    current_ = rates_.Of(active_);
    changed_ = false;
    ++rate_changes_;
  }

  /// Advances to the next end of a part or timer, and handles it.
  void Advance() {
    double next =
        timers_.empty() ? std::numeric_limits<double>::infinity() : std::get<0>(timers_.top());
    for (size_t i = 0; i < active_.size(); ++i) {
      next = std::min(next, now_ + connections_[active_[i]].queue[0].bytes / current_[i]);
    }
    const double passed = next - now_;
    now_ = next;
    // Parts that end within a billionth of the time end together.
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
    // Rates are by index in active_, and stay valid while no connection joins or leaves.
    active_ = std::move(still);
    for (const uint32_t message : sent) Sent(message);
    while (!timers_.empty() && std::get<0>(timers_.top()) <= now_ + soon) {
      const auto [time, order, what, number] = timers_.top();
      timers_.pop();
      switch (what) {
        case Due::kStep: Finish(number); break;
        case Due::kGo: Go(number); break;
        case Due::kCome: Come(number); break;
      }
    }
  }

  const FabricModel& model_;
  const Candidate& candidate_;
  const StepTable& table_;
  const SimulationOptions& options_;
  FairRates rates_;
  std::vector<uint32_t> waits_for_;   // by step
  std::vector<uint8_t> state_;        // by message
  std::vector<uint16_t> parts_left_;  // by message
  // By host: the times until which its memory, and its handling of messages, are busy.
  std::vector<double> memory_free_;
  std::vector<double> hands_free_;
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
  HZ_ASSIGN_OR_RETURN(const StepTable table, MakeStepTable(outline, bytes));
  return Run(model, candidate, table, options).ToTheEnd();
}

}  // namespace harmonaize::simulator
