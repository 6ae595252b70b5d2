#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "src/topology/fabric/fabric_rail.h"

namespace harmonaize {

/// Returns by what a priority multiplies a weight: those of lower priority hardly count beside it,
/// but are not shut out.
double PriorityFactor(int priority);

/// A job of a tenant, numbered alike on all hosts.
struct JobId {
  uint32_t tenant = 0;
  uint64_t job = 0;
  auto operator<=>(const JobId&) const = default;
};

/// An edge of a fabric, and the fraction of a flow that crosses it: less than 1 where routers
/// choose.
struct CrossedEdge {
  int edge = 0;
  double part = 1;
};

/// What a job was granted on links.
struct LinkTerms {
  /// Jobs of one tenant that have one owner have floor and cap together.
  uint64_t owner = 0;
  int priority = 0;  ///< Only jobs of one priority divide the tenant's weight among themselves.
  /// Rate on each edge that the owner gets before others get more than theirs, in bytes per second;
  /// 0: none.
  double floor = 0;
  double cap = 0;  ///< Rate that the owner does not exceed on any edge; 0: no limit.
  /// Rate on each edge that may be promised to all owners of the tenant together by their floors.
  double tenant_floor = 0;
  /// Rate that all owners of the tenant together do not exceed on any edge; 0: no limit.
  double tenant_cap = 0;

  /// Returns whether there is a floor or a cap.
  bool any() const { return floor > 0 || cap > 0 || tenant_cap > 0; }
};

/// Bytes that one job has sent over one rail in an interval.
struct JobFlow {
  FabricRail rail;
  JobId job;
  double weight = 1;  ///< Weight of the tenant, with the job's priority in it.
  std::shared_ptr<const std::vector<CrossedEdge>> edges;
  double bytes_per_second = 0;
  /// For a job that is known to compute and send by turns: the fraction of the time in which it
  /// sends.
  double sending = 1;
  /// Fraction of the time in which the rail had something to send, of whatever job; 0: not known.
  double busy = 0;
  LinkTerms terms{};
};

/// Rate that a job may use of one rail.
struct JobLimit {
  FabricRail rail;
  JobId job;
  uint64_t owner = 0;
  /// If the job is not held back: the most that it is expected to send.
  double bytes_per_second = 0;
  bool held_back = false;
};

/// Divides `capacity` over claims by weight (max-min fairness): a claim for less than its share
/// gets what it wants, and leaves the rest to the others. None gets more than it wants, and none
/// less than its floor, if it wants so much. Floors that exceed the capacity together are lowered,
/// all in proportion.
struct Claim {
  double wanted = 0;
  double weight = 1;  ///< Above 0.
  double floor = 0;
};
std::vector<double> ShareOut(std::span<const Claim> claims, double capacity);

/// Divides the links of a fabric between the jobs of all tenants that meet on them, whether or not
/// they have hosts in common: on each link the tenants share by their weights, and the jobs of each
/// tenant alike. Where the share of an owner with a floor is smaller than the floor, it gets the
/// floor, and the others share the rest. An owner or a tenant with a cap is held back to it, also
/// when it is alone.
///
/// A job's demand for a link is not known. It is taken to be somewhat more than the job has had
/// lately, and less of that surplus while the job does not use its grant (as in Kumar et al., "BwE:
/// flexible, hierarchical bandwidth allocation for WAN distributed computing", SIGCOMM 2015). But a
/// job that others' queues keep from its share could not show that it wants it. So now and then it
/// is given room for all of its share, and keeps it for as long as it uses it. A job that has more
/// than its share, while others that send have less than theirs, is held back to what they leave.
/// All others are left alone, and take what has become free. So a job that is alone, or whose
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
  /// Returns how the floors of the jobs that send fare; a job without floor is not listed.
  const std::map<JobId, FloorReport>& floors() const { return floors_; }

  /// Returns, for each rail on which a job is held back, the limits of all jobs that send over it.
  std::vector<JobLimit> Limits() const;

  /// Returns what a job can have of those of `edges` that others use, if that is less than the edge
  /// carries; by edge, in bytes a second. A value changes only when it is off by more than noise.
  const std::map<int, double>& AvailableTo(const JobId& job, double weight,
                                           std::span<const int> edges);

 private:
  struct Flow {
    double mean = 0;  // bytes a second, smoothed
    double last = 0;  // bytes a second in the last interval
    double sending = 1;
    double busy = 0;
    double weight = 1;
    LinkTerms terms{};
    std::shared_ptr<const std::vector<CrossedEdge>> edges{};
  };
  /// Traffic of one job on one edge.
  struct Part {
    JobId job;
    LinkTerms terms{};
    double weight = 1;        // the job's own: its part of the tenant's
    double plain_weight = 1;  // likewise, without the factor of its priority
    double floor = 0;         // the job's part of the owner's
    double cap = std::numeric_limits<double>::infinity();  // likewise, or of the tenant's
    double fair = 0;        // what it would get if all wanted all they can have
    double plain_fair = 0;  // likewise, if there were no priorities: its plain share
    double mean = 0;
    double last = 0;
    double sending = 1;
    double busy = 0;  // of its busiest flow
    size_t flows = 0;
    double headroom = kMostHeadroom;
    double stretch = 1;  // factor by which its flows may exceed their part of the grant
    double granted = 0;
    bool held_back = false;

    double Wanted() const { return mean * (1 + headroom); }
  };
  struct EdgeParts {
    double capacity = 0;  // usable
    std::vector<Part> jobs;

    Part* Of(const JobId& job);
  };
  /// A job that is deprived somewhere.
  struct Deprived {
    double mean = 0;  // what it sends in all
    bool of_floor = false;
    bool is_preferred = false;

    double longest_rest_seconds() const;
  };
  /// Finds out whether a job that is deprived of its share somewhere would take it.
  struct Trial {
    bool gives_room = false;
    double base = 0;  // what it had without room
    double rest_seconds = 0;
    double until_seconds = -std::numeric_limits<double>::infinity();  // no trial so far

    void Take(const Deprived& job, double now_seconds);
    void Judge(const Deprived& job);
  };
  /// Most headroom of a job, as a fraction of its mean rate.
  static constexpr double kMostHeadroom = 0.3;

  void TakeMeans(std::span<const JobFlow> flows, double now_seconds);
  void SumUp(const std::function<double(int edge)>& capacity);
  static void Weigh(EdgeParts* edge);
  static void DivideTerms(EdgeParts* edge);
  static void FindFair(EdgeParts* edge);
  static void ShareByTerms(EdgeParts* edge, double Part::*weight, double Part::*share);
  static bool IsPreferred(const Part& part);
  static bool IsDeprivedOfFloor(const Part& part);
  static bool IsDeprived(const Part& part);
  static bool ExceedsCap(const Part& part);
  static double NeededBy(const Part& part);
  void GiveRoom(double now_seconds);
  bool HasRoom(const Part& part) const;
  double RoomFor(const Part& part) const;
  double ClaimOf(const EdgeParts& edge, const Part& part) const;
  static double LeftByWeight(const EdgeParts& edge, double left);
  void Grant(EdgeParts* edge);
  void NoteFloors(const EdgeParts& edge);
  static void Adapt(Part* part, double had);
  static double LeftFor(const EdgeParts& edge, const JobId& job, double weight);
  double LimitOf(const Flow& flow, const JobId& job, bool* held_back) const;

  std::map<std::pair<FabricRail, JobId>, Flow> flows_;
  std::vector<EdgeParts> edges_;                      // by edge
  std::vector<int> used_;                             // edges that any job sends over
  std::set<JobId> held_back_;                         // on any edge
  std::map<JobId, Trial> trials_;                     // of jobs deprived lately
  std::vector<Claim> claims_;                         // kept, so that an edge allocates nothing
  std::map<JobId, std::map<int, double>> available_;  // in force
  std::map<JobId, FloorReport> floors_;
  double taken_seconds_ = -1;
};

}  // namespace harmonaize
