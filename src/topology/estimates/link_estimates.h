#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// What one flow has met in an interval of time, as its sender saw it: the traffic of a rail, or of
/// one of its connections.
struct FlowSample {
  std::vector<int> edges;       ///< Of the fabric, in order.
  bool whole = true;            ///< It crosses no others. Else it says of none that it is full.
  double bytes_per_second = 0;  ///< That arrived, over the whole interval.
  /// Part of the interval, from 0 to 1, in which there was something to send. A flow that is not
  /// busy says nothing of what its links could carry, but it does of their queues.
  double busy = 0;
  /// What its packets waited in queues on their way there, in seconds; < 0: not known.
  double queue_seconds = 0;
};

/// What somebody at one of its ends has counted on an edge in an interval: all that it carried,
/// ours and others'.
struct EdgeCount {
  int edge = 0;
  double bytes_per_second = 0;
  /// What waited at its beginning, in seconds of its stated rate; < 0: not known.
  double queue_seconds = -1;
};

/// What is known of an edge.
struct EdgeEstimate {
  /// What our flows together can have of it, in bytes a second. Not above what the fabric states.
  double bytes_per_second = 0;
  /// From 0 (only what the fabric states is known) to 1 (measured just now, several times).
  double confidence = 0;
  double age_seconds = 0;  ///< Since there was a sign of it; infinite: never.
  /// The last sign was that flows were held up by it. Else it carries this much, and maybe more.
  bool full = false;
};

/// What the links of a fabric can carry now, from what flows over several of them achieve: somebody
/// else may use them, or their rates may have changed. A flow that is held up is held up by one of
/// its links, and tells not which: the guilty one is sought among those where every flow meets a
/// queue (network tomography; Coates, Hero, Nowak, Yu, "Internet Tomography", 2002, is a survey).
/// Of several that explain the same, each is taken for guilty: plans avoid all of them, and lose
/// little by it, since they lie in a row.
///
/// One thread's. Time is passed in, so that equal samples give equal estimates.
class LinkEstimates {
 public:
  /// Borrows nothing.
  explicit LinkEstimates(const Fabric& fabric);

  /// All flows of one interval that ended at `now_seconds`; none is missing that is ours. What was
  /// counted of edges, of each once at most.
  void Take(std::span<const FlowSample> flows, double now_seconds,
            std::span<const EdgeCount> counts = {});
  /// What an active probe found that one connection alone gets over these edges.
  void TakeProbe(const std::vector<int>& edges, double bytes_per_second, double now_seconds);

  EdgeEstimate At(int edge, double now_seconds) const;
  int edges() const { return static_cast<int>(states_.size()); }

  /// An edge whose flows achieve less than this share of what it was thought to carry, held up by
  /// it, has less to give.
  static constexpr double kFullShare = 0.85;
  /// Without a sign for this long, an edge that had less to give is worth another try.
  static constexpr double kForgottenSeconds = 10;

 private:
  struct State {
    double stated = 0;
    double estimate = 0;
    double confidence = 0;
    double seen_seconds = -1;  // < 0: never
    bool full = false;
  };
  struct Load {
    double carried = 0;
    double busy = 0;         // of the flow over it that was busiest
    double least_queue = 0;  // that any of its flows met: it has no longer one
    bool full = false;       // with what others send, too
    bool clear = false;      // nothing waits at its beginning
  };

  std::vector<Load> LoadsOf(std::span<const FlowSample> flows,
                            std::span<const EdgeCount> counts) const;
  void Blame(const FlowSample& flow, const std::vector<Load>& loads,
             std::vector<char>* guilty) const;
  void Learn(State* state, double measured, double now_seconds) const;

  std::vector<State> states_;  // by edge
};

}  // namespace harmonaize
