#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages/link.h"
#include "daemon/links/cut_links.h"
#include "src/executor/network/fabric_rails.h"
#include "src/planner/fabric_model.h"
#include "src/planner/rated_models.h"
#include "src/topology/estimates/link_estimates.h"
#include "src/topology/fabric/fabric_rail.h"

namespace harmonaize::daemon {

/// What is known of an edge, for reports.
struct EdgeState {
  int edge = 0;
  double stated = 0;    ///< Bytes per second, by the fabric file.
  double in_force = 0;  ///< Bytes per second that plans are made for.
  double carried = 0;   ///< Bytes per second that it carried in the last interval, as far as known.
  EdgeEstimate estimate;
};

/// Returns "leaf0 to spine0 carries 100 of 500 Mbit/s", for the slowest few edges.
std::string DescribeRates(const FabricModel& model, const EdgeRates& rates);

/// Returns whether any of these edges carries next to nothing.
bool AnyIsCut(const FabricModel& model, const EdgeRates& rates);

/// At a home, and at the controller: infers what the links of the provider's fabric carry now, from
/// what the daemons of its communicators tell of their rails. Estimates waver with every interval.
/// Plans are made for the rates *in force*, which follow the estimates when they differ by much,
/// and for more than one interval.
///
/// An edge that has been found slow stays so until there is a sign of more: from flows, or from a
/// probe while it holds up no flow. An edge that is cut (CutLinks) is so at once, and no longer
/// than a host says so. Thread: one. Time is passed in.
class LinkState {
 public:
  explicit LinkState(std::shared_ptr<const FabricModel> model);

  /// Takes in what a host tells. Hosts and rails that do not exist are left out.
  void Take(const TrafficMessage& traffic, double now_seconds);
  /// Draws the conclusions. To be called once in an interval, or more often. Returns true if the
  /// rates in force have changed.
  bool Settle(double now_seconds);

  /// The rates in force of edges that carry less than the fabric states.
  const EdgeRates& rates() const { return rates_; }

  /// Returns a rail to probe: it leads over an edge of which it is time to see whether it is still
  /// slow.
  std::optional<FabricRail> NextProbe(double now_seconds);
  /// Takes in what a probe over a rail has found. Returns true if the rates in force have changed.
  bool TakeProbe(const FabricRail& rail, double bytes_per_second, double now_seconds);

  /// Returns the edges of which there ever was a sign, and those that carry something.
  std::vector<EdgeState> Edges(double now_seconds) const;

  /// Interval, in seconds, at which hosts tell of their traffic and conclusions are drawn.
  static constexpr double kIntervalSeconds = 0.1;

 private:
  struct Slow {
    double share = 1;   ///< Fraction of the stated rate that is in force.
    int deviating = 0;  ///< Intervals in a row in which the estimate was far below, or (< 0) above.
    double blamed_seconds = 0;  ///< When a flow was last held up by it.
    double next_probe_seconds = 0;
    double probe_pause_seconds = 0;
    double raised_seconds = -1e9;       ///< When a probe last found more.
    std::optional<FabricRail> witness;  ///< A rail over it.
  };
  struct Report {
    double at_seconds = 0;
    std::vector<FlowSample> flows;
    std::vector<FabricRail> rails;          ///< The rails of the flows.
    std::map<FabricRail, double> arrivals;  ///< Seconds that arriving data waited in queues.
    std::vector<EdgeCount> counts;          ///< Counts of the links at its NICs.
  };

  std::vector<FlowSample> Recent(double now_seconds) const;
  std::vector<EdgeCount> CountsOf(const TrafficMessage& traffic) const;
  std::vector<EdgeCount> RecentCounts(double now_seconds) const;
  std::vector<double> Carried(double now_seconds) const;
  double QueueOf(const FabricRail& rail, double now_seconds) const;
  void NoteWitnesses(double now_seconds);
  bool Follow(int edge, double now_seconds);
  void PutInForce(Slow* slow, double share, double now_seconds);
  void PauseProbes(Slow* slow, double now_seconds);
  bool SettleCut(double now_seconds);
  void MakeRates();

  const std::shared_ptr<const FabricModel> model_;
  const FabricRails rails_of_hosts_;
  LinkEstimates estimates_;
  CutLinks cut_;
  std::map<int, Report> reports_;  // by host
  std::map<int, Slow> slow_;       // by edge: those that are not as stated, or may soon be so
  EdgeRates rates_;
  double settled_seconds_ = -1;
};

}  // namespace harmonaize::daemon
