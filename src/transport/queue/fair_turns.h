#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace harmonaize::transport {

/// State of one flow that takes turns.
struct FairTurn {
  uint64_t id = 0;
  double weight = 1;     ///< Weight in the share of all sending flows; above 0.
  double start = 0;      ///< Start of what it sends next: bytes by weight, on the clock of its
                         ///< FairTurns.
  bool waiting = false;  ///< It has something to send, or had at the last check.
  bool ready = false;    ///< It also may send now.
};

/// Chooses the flow whose turn it is: start-time fair queueing (Goyal, Vin, Cheng, "Start-time Fair
/// Queueing", SIGCOMM 1996) with leads. In the long run all flows that have something to send get
/// equal shares of the clock. But of the flows that are no further than a lead ahead of the last
/// one, the one with the least left of its operation goes first. Sharing would end none of the
/// operations earlier, and all but the last one later (Schrage, "A proof of the optimality of the
/// shortest remaining processing time discipline", Operations Research, 1968). So bursts that
/// collide repeatedly slide apart, and collide no more (as in Rajasekaran et al., "Congestion
/// control in machine learning clusters", HotNets 2022, where flows are unequal for it).
///
/// A flow that comes back is ahead of the others by what it has not used lately, up to the lead and
/// kCredit. A `Flow` is a FairTurn with these functions: `HasSends()` returns whether it wants
/// turns. `Left()` returns the bytes it has left; 0, not known, makes it share. `Held()` returns
/// whether it has to wait although its turn has come, which costs none of its share. `Begin()` is
/// called when the object begins to stand for another flow. Allocates nothing for as many flows at
/// a time as it has seen.
template <class Flow>
class FairTurns {
 public:
  /// Bytes of share that an idle flow keeps. Messages of one operation wait for each other, so even
  /// a flow that sends as fast as it can often has nothing to send, and is compensated for that.
  static constexpr double kCredit = 4 << 20;

  /// Returns the flow of this number, which was seen lately or is new. Flows never move in memory.
  Flow* Of(uint64_t id) {
    Flow* forgotten = nullptr;
    for (Flow& flow : flows_) {
      if (flow.id == id) return &flow;
      // This flow has nothing to send, and no more credit than a new one would have.
      if (!flow.waiting && flow.start <= clock_ - lead_ - kCredit) forgotten = &flow;
    }
    Flow* flow = forgotten != nullptr ? forgotten : &flows_.emplace_back();
    flow->id = id;
    flow->start = clock_;
    flow->Begin();
    return flow;
  }

  /// Notes that the flow has something to send.
  void Want(Flow* flow) {
    if (!flow->waiting) flow->start = std::max(flow->start, clock_ - lead_ - kCredit);
    flow->waiting = true;
  }

  /// Returns the flow whose turn it is; null when none has anything to send, or may.
  Flow* Next() {
    Flow* last = nullptr;
    int ready = 0;
    for (Flow& flow : flows_) {
      flow.waiting = flow.waiting && flow.HasSends();
      flow.ready = flow.waiting && !flow.Held();
      if (!flow.ready) continue;
      ++ready;
      if (last == nullptr || flow.start < last->start) last = &flow;
    }
    if (ready <= 1) return last;
    double least = Left(last);
    for (Flow& flow : flows_) {
      if (MayLead(flow, *last)) least = std::min(least, Left(&flow));
    }
    Flow* next = nullptr;
    for (Flow& flow : flows_) {
      if (!MayLead(flow, *last) || kAlike * Left(&flow) > least) continue;
      if (next == nullptr || flow.id < next->id) next = &flow;
    }
    return next;
  }

  /// Returns whether any flow has something to send, though it may have to wait.
  bool AnyWaits() {
    return std::any_of(flows_.begin(), flows_.end(),
                       [](Flow& flow) { return flow.waiting && flow.HasSends(); });
  }

  /// Notes that the flow has sent so many bytes.
  void Charge(Flow* flow, size_t bytes) {
    clock_ = std::max(clock_, flow->start);
    flow->start += static_cast<double>(bytes) / flow->weight;
    if (clock_ > kMostClock) SetBack();
  }

  /// Lets all flows stand for others from now on.
  void BeginAll() {
    for (Flow& flow : flows_) flow.Begin();
  }

  /// Calls the function for all flows that were seen lately.
  template <class Function>
  void ForEach(Function function) {
    for (Flow& flow : flows_) function(flow);
  }
  template <class Function>
  void ForEach(Function function) const {
    for (const Flow& flow : flows_) function(flow);
  }

  /// Sets how many bytes one flow may get ahead of another.
  void set_lead(double lead) { lead_ = lead; }

 private:
  // All hosts of two operations have to prefer the same one, but not all have the same bytes of it
  // left. So bytes left count as alike within a quarter, and then the lower number wins.
  static constexpr double kAlike = 0.75;
  /// The clock is set back from here, since large numbers would swallow the small steps of flows
  /// with a large weight.
  static constexpr double kMostClock = 1 << 24;

  void SetBack() {
    for (Flow& flow : flows_) flow.start -= clock_;
    clock_ = 0;
  }
  static double Left(Flow* flow) { return static_cast<double>(flow->Left()) / flow->weight; }
  /// Returns whether the flow may send although `last` has had less. A large weight makes a flow
  /// reach its lead sooner, but gives it no longer one.
  bool MayLead(Flow& flow, Flow& last) {
    if (!flow.ready || flow.start <= last.start) return flow.ready;
    if (flow.Left() == 0 || last.Left() == 0) return false;
    return flow.start - last.start <= lead_ / std::max(flow.weight, 1.0);
  }

  std::deque<Flow> flows_;
  double clock_ = 0;  // the start of what was sent last
  double lead_ = 0;
};

}  // namespace harmonaize::transport
