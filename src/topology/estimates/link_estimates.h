#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// A flow's figures in an interval of time, as its sender saw them: the traffic of a rail, or of
/// one of its connections.
struct FlowSample {
  std::vector<int> edges;       ///< Edges of the fabric, in order.
  bool whole = true;            ///< It crosses no others. If false, it cannot show that an edge is
                                ///< full.
  double bytes_per_second = 0;  ///< Bytes that arrived, over the whole interval.
  /// Fraction of the interval, from 0 to 1, in which there was something to send. A flow that is
  /// not busy tells nothing of what its links could carry, only of their queues.
  double busy = 0;
  /// Seconds that its packets waited in queues on their way; < 0: not known.
  double queue_seconds = 0;
};

/// Traffic of an edge in an interval as counted at one of its ends: our own and others'.
struct EdgeCount {
  int edge = 0;
  double bytes_per_second = 0;
  /// Queue at its beginning, in seconds of its stated rate; < 0: not known.
  double queue_seconds = -1;
};

/// Estimated state of an edge.
struct EdgeEstimate {
  /// Bytes a second that our flows together can get of it. Not above what the fabric states.
  double bytes_per_second = 0;
  /// From 0 (only the stated rate is known) to 1 (measured just now, several times).
  double confidence = 0;
  double age_seconds = 0;  ///< Time since the last sign of its rate; infinite: never.
  /// The last sign was that it held flows up. If false, it carries this much, and maybe more.
  bool full = false;
};

/// Estimates what the links of a fabric can carry now, from what flows over several of them
/// achieve: others may use them, or their rates may have changed. A flow that is held up is held up
/// by one of its links, and does not show by which. The link is sought among those where every flow
/// meets a queue (network tomography; Coates, Hero, Nowak, Yu, "Internet Tomography", 2002, is a
/// survey). If several links explain the same, each is blamed. Plans then avoid all of them, and
/// lose little, because they lie in a row.
///
/// Thread: one. Time is passed in, so equal samples give equal estimates.
class LinkEstimates {
 public:
  /// Keeps no reference to the fabric.
  explicit LinkEstimates(const Fabric& fabric);

  /// Takes all our flows of one interval that ended at `now_seconds`, and counts of edges, at most
  /// one for each.
  void Take(std::span<const FlowSample> flows, double now_seconds,
            std::span<const EdgeCount> counts = {});
  /// Takes the rate that an active probe found for one connection alone over these edges.
  void TakeProbe(const std::vector<int>& edges, double bytes_per_second, double now_seconds);

  EdgeEstimate At(int edge, double now_seconds) const;
  int edges() const { return static_cast<int>(states_.size()); }

  /// An edge that holds its flows up, and carries less than this fraction of its stated rate, has
  /// less to give.
  static constexpr double kFullShare = 0.85;
  /// Seconds without a sign after which an edge that had less to give is worth another try.
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
    double busy = 0;         // of its busiest whole flow
    double least_queue = 0;  // least that any of its flows met: its own is no longer
    bool full = false;       // with other senders' traffic, too
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
