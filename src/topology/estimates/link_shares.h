#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "src/topology/estimates/edge_shares.h"
#include "src/topology/estimates/room_trials.h"
#include "src/topology/estimates/sharer.h"
#include "src/topology/fabric/fabric_rail.h"

namespace harmonaize {

/// Bytes that one communicator has sent over one rail in an interval.
struct JobFlow {
  FabricRail rail;
  JobId job;
  double weight = 1;  ///< Weight of the tenant, with the job's priority in it.
  std::shared_ptr<const std::vector<CrossedEdge>> edges;
  double bytes_per_second = 0;
  /// For one that is known to compute and send by turns: the fraction of the time in which it
  /// sends.
  double sending = 1;
  /// Fraction of the time in which the rail had something to send, of whatever job; 0: not known.
  double busy = 0;
  LinkTerms terms{};
};

/// Rate that a tenant may use of one rail.
struct ShareLimit {
  FabricRail rail;
  uint32_t tenant = 0;
  uint64_t owner = 0;  ///< Whose communicators are limited; 0: all of the tenant's together.
  double bytes_per_second = 0;
};

/// Divides the links of a fabric between the jobs of all tenants that meet on them, whether or not
/// they have hosts in common: on each link the tenants share by their weights, and the owners of
/// each tenant alike (Sharer). Where the share of an owner with a floor is smaller than the floor,
/// it gets the floor, and the others share the rest. An owner or a tenant with a cap is held back
/// to it, also when it is alone.
///
/// A job's demand for a link is not known. It is taken to be somewhat more than the job has had
/// lately, and less of that surplus while the job does not use its grant (as in Kumar et al., "BwE:
/// flexible, hierarchical bandwidth allocation for WAN distributed computing", SIGCOMM 2015). But a
/// job that others' queues keep from its share could not show that it wants it. So now and then it
/// is given room for all of its share, and keeps it for as long as it uses it (RoomTrials). A job
/// that has more than its share, while others that send have less than theirs, is held back to what
/// they leave. So is a tenant whose jobs have more than their shares together, whichever of them
/// send. All others are left alone, and take what has become free. So a job that is alone, or whose
/// neighbours want little, or have enough whenever they send, is never held back.
///
/// The share of a job with a priority may be nearly the whole link, of which the job may use
/// little. So its room is bounded by what it has, and jobs that are held back divide what the
/// claims leave by their weights without priorities.
///
/// Thread: one. Time is passed in.
class LinkShares {
 public:
  /// Fraction of a link's capacity that is shared out: headers and gaps take the rest.
  static constexpr double kUsable = 0.95;

  /// Takes all flows of an interval that ended at `now_seconds`, and what each edge can carry, in
  /// bytes a second.
  void Take(std::span<const JobFlow> flows, const std::function<double(int edge)>& capacity,
            double now_seconds);

  /// How an owner's floor fares.
  enum class FloorState : uint8_t {
    kKept,    ///< It has its floor, or could have it.
    kMissed,  ///< It has less than its floor, and seems to want it, though it was given room.
    kUnknown  ///< It has less, and nobody knows whether it wants more.
  };
  struct FloorReport {
    FloorState state = FloorState::kKept;
    double had = 0;  ///< Where it has least of its floor, in bytes per second.
  };
  /// Returns how the floors of those that send fare; one without floor is not listed.
  const std::map<Sharer, FloorReport>& floors() const { return floors_; }

  /// Returns the limits of tenants that are held back on a rail for others, and of owners that
  /// their caps hold back, by rail.
  std::vector<ShareLimit> Limits() const;
  /// Returns the number of rails on which each communicator is held back, for whatever reason.
  std::map<JobId, size_t> HeldBack() const;

  /// Returns what a communicator can have of those of `edges` that others use, if that is less than
  /// the edge carries; by edge, in bytes a second. A value changes only when it is off by more than
  /// noise.
  const std::map<int, double>& AvailableTo(const JobId& job, double weight, const LinkTerms& terms,
                                           std::span<const int> edges);

 private:
  using Flows = std::map<std::pair<JobId, FabricRail>, SentFlow>;

  void TakeMeans(std::span<const JobFlow> flows, double now_seconds);
  void SumUp(const std::function<double(int edge)>& capacity);
  void FindDeprived(double now_seconds);
  void NoteFloors(const EdgeShares& edge);
  void NoteHeldBack(const EdgeShares& edge);
  double LimitOf(const Flows::value_type& flow,
                 double (EdgeShares::*limit)(const Sharer&, double) const) const;
  std::map<int, double> MeansOf(const JobId& job) const;

  Flows flows_;
  std::vector<EdgeShares> edges_;  // by edge
  std::vector<int> used_;          // edges that any job sends over
  RoomTrials trials_;
  std::set<Sharer> held_back_;                        // on any edge
  std::map<JobId, std::map<int, double>> available_;  // in force
  std::map<Sharer, FloorReport> floors_;
  double taken_seconds_ = -1;
};

}  // namespace harmonaize
