#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/base/intrusive_list.h"
#include "src/transport/queue/numbered_pool.h"
#include "src/transport/queue/turn_index.h"

namespace harmonaize::transport {

/// State of one flow that takes turns.
struct FairTurn : TurnPlace, ListNode {
  uint64_t id = 0;
  double weight = 1;     ///< Weight in the share of all sending flows; above 0.
  double start = 0;      ///< Start of what it sends next: bytes by weight, on the clock of its
                         ///< FairTurns.
  bool waiting = false;  ///< It has something to send.

  /// Called when the object begins to stand for another flow.
  void Begin() {}
};

/// Keeps the clock by which flows get equal shares: start-time fair queueing (Goyal, Vin, Cheng,
/// "Start-time Fair Queueing", SIGCOMM 1996) with leads. In the long run all flows that have
/// something to send get equal shares of the clock. But of the flows that are no further than a
/// lead ahead of the last one, the one with the least left of its operation goes first (TurnIndex,
/// which chooses by the claims that Claim makes). Sharing would end none of the operations earlier,
/// and all but the last one later (Schrage, "A proof of the optimality of the shortest remaining
/// processing time discipline", Operations Research, 1968). So bursts that collide repeatedly slide
/// apart, and collide no more (as in Rajasekaran et al., "Congestion control in machine learning
/// clusters", HotNets 2022, where flows are unequal for it).
///
/// A flow that comes back is ahead of the others by what it has not used lately, up to the lead and
/// kCredit. A `Flow` is a FairTurn. Allocates nothing for as many flows at a time as it has seen.
/// But for BeginAll, SetBack and ForEach, the steps of a function grow with the logarithm of the
/// number of flows.
template <class Flow>
class FairTurns {
 public:
  /// Bytes of share that an idle flow keeps. Messages of one operation wait for each other, so even
  /// a flow that sends as fast as it can often has nothing to send, and is compensated for that.
  static constexpr double kCredit = 4 << 20;

  /// Returns the flow of this number, which was seen lately or is new. Flows never move in memory.
  Flow* Of(uint64_t id) {
    if (Flow* const known = flows_.Find(id); known != nullptr) return known;
    // The old flow has nothing to send, and no more credit than a new one would have.
    Flow* const flow = flows_.Add(id, [this](const Flow& old) { return old.start <= Oldest(); });
    flow->start = clock_;
    flow->Begin();
    return flow;
  }
  /// Returns the flow of this number if it was seen lately, and else null.
  Flow* Find(uint64_t id) { return flows_.Find(id); }

  /// Notes that the flow has something to send.
  void Want(Flow* flow) {
    if (flow->waiting) return;
    flow->Unlink();
    flow->start = std::max(flow->start, Oldest());
    flow->waiting = true;
  }
  /// Notes that the flow has nothing to send.
  void Rest(Flow* flow) {
    flow->waiting = false;
    flows_.Rest(flow);
  }

  /// Notes that the flow has sent so many bytes.
  void Charge(Flow* flow, size_t bytes) {
    clock_ = std::max(clock_, flow->start);
    flow->start += static_cast<double>(bytes) / flow->weight;
  }

  /// Returns the claim of a flow that has this number of bytes left; 0: not known. A large weight
  /// makes a flow reach its lead sooner, but gives it no longer one.
  TurnClaim Claim(const Flow& flow, double left) const {
    const double lead = left > 0 ? lead_ / std::max(flow.weight, 1.0) : 0;
    return {flow.id, left / flow.weight, flow.start, flow.start - lead};
  }

  /// Sets the clock back, with the claims in `index`, once large numbers would swallow the small
  /// steps of flows with a large weight.
  void SetBack(TurnIndex* index) {
    if (clock_ <= kMostClock) return;
    flows_.ForEach([this](Flow& flow) { flow.start -= clock_; });
    index->SetBack(clock_);
    clock_ = 0;
  }

  /// Lets all flows stand for others from now on.
  void BeginAll() {
    flows_.ForEach([](Flow& flow) { flow.Begin(); });
  }

  /// Calls the function for all flows that were seen lately.
  template <class Function>
  void ForEach(Function function) {
    flows_.ForEach(function);
  }
  template <class Function>
  void ForEach(Function function) const {
    flows_.ForEach(function);
  }

  /// Sets how many bytes one flow may get ahead of another. Claims that were made before keep the
  /// lead of that time.
  void set_lead(double lead) { lead_ = lead; }

 private:
  /// Bytes on the clock, by weight, from which SetBack sets it back: the steps of the largest
  /// weight (kMostWeight) are still told apart there.
  static constexpr double kMostClock = 1 << 24;

  /// Returns the start of a flow that has not used all that it can keep.
  double Oldest() const { return clock_ - lead_ - kCredit; }

  NumberedPool<Flow> flows_;
  double clock_ = 0;  // the start of what was sent last
  double lead_ = 0;
};

}  // namespace harmonaize::transport
