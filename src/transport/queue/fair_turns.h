#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace harmonaize::transport {

/// One of those who take turns.
struct FairTurn {
  uint64_t id = 0;
  double weight = 1;     ///< Of what all send, above 0.
  double start = 0;      ///< Of what it sends next: bytes by weight, on the clock of its FairTurns.
  bool waiting = false;  ///< Has something to send, or had when it was asked last.
  bool ready = false;    ///< And may send it now.
};

/// Whose turn it is: start-time fair queueing (Goyal, Vin, Cheng, "Start-time Fair Queueing",
/// SIGCOMM 1996) with leads. In the long run all who have something to send get the same of the
/// clock. But of those who are no further than a lead ahead of the last one, whoever has the least
/// left of what it is at goes first: sharing would end none of them earlier, and all but the last
/// one later (Schrage, "A proof of the optimality of the shortest remaining processing time
/// discipline", Operations Research, 1968). So bursts that collide again and again slide apart, and
/// collide no more (as in Rajasekaran et al., "Congestion control in machine learning clusters",
/// HotNets 2022, where flows are unequal for it).
///
/// What one has not used lately, up to the lead and kCredit, it has in front of the others when it
/// comes back. A `Flow` is a FairTurn; `HasSends()` says whether it wants turns, `Left()` how much
/// it has left in bytes; who does not know, 0, shares; `Held()` whether it has to wait although its
/// turn has come, which costs it nothing of its share. `Begin()` is told when it stands for another
/// than before. Allocates nothing once it has seen as many flows at a time.
template <class Flow>
class FairTurns {
 public:
  /// Messages of one operation wait for each other, so even who sends as fast as it can often has
  /// nothing to send: that is made up for.
  static constexpr double kCredit = 4 << 20;

  /// The flow of this number: that was seen lately, or is new. They never move.
  Flow* Of(uint64_t id) {
    Flow* forgotten = nullptr;
    for (Flow& flow : flows_) {
      if (flow.id == id) return &flow;
      // It has nothing to send, and no more to its credit than it would have anew.
      if (!flow.waiting && flow.start <= clock_ - lead_ - kCredit) forgotten = &flow;
    }
    Flow* flow = forgotten != nullptr ? forgotten : &flows_.emplace_back();
    flow->id = id;
    flow->start = clock_;
    flow->Begin();
    return flow;
  }

  /// It has something to send.
  void Want(Flow* flow) {
    if (!flow->waiting) flow->start = std::max(flow->start, clock_ - lead_ - kCredit);
    flow->waiting = true;
  }

  /// Whose turn it is; null when nobody has anything to send, or may.
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

  /// It has sent so many bytes.
  void Charge(Flow* flow, size_t bytes) {
    clock_ = std::max(clock_, flow->start);
    flow->start += static_cast<double>(bytes) / flow->weight;
  }

  /// All stand for others from now on.
  void BeginAll() {
    for (Flow& flow : flows_) flow.Begin();
  }

  /// Of all that were seen lately.
  template <class Function>
  void ForEach(Function function) {
    for (Flow& flow : flows_) function(flow);
  }
  template <class Function>
  void ForEach(Function function) const {
    for (const Flow& flow : flows_) function(flow);
  }

  /// How many bytes one may get ahead of another.
  void set_lead(double lead) { lead_ = lead; }

 private:
  // All hosts of two operations have to prefer the same one, and not all are quite as far with it:
  // what is left counts as alike within a quarter, and then the number decides.
  static constexpr double kAlike = 0.75;

  static double Left(Flow* flow) { return static_cast<double>(flow->Left()) / flow->weight; }
  /// Whether it may send although that one has had less. Who has a large weight gets its lead
  /// sooner, and not a longer one.
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
