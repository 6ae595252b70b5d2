#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "src/topology/fabric/fabric_rail.h"

namespace harmonaize {

/// A job of a tenant, numbered alike at all hosts.
struct JobId {
  uint32_t tenant = 0;
  uint64_t job = 0;
  auto operator<=>(const JobId&) const = default;
};

/// An edge of a fabric, and what part of a flow crosses it: where routers choose, not all.
struct CrossedEdge {
  int edge = 0;
  double part = 1;
};

/// What one job has sent over one rail in an interval.
struct JobFlow {
  FabricRail rail;
  JobId job;
  double weight = 1;  ///< Of the tenant.
  std::shared_ptr<const std::vector<CrossedEdge>> edges;
  double bytes_per_second = 0;
  /// Of a job that is known to compute and send by turns: the part of the time in which it sends.
  double sending = 1;
};

/// What a job may send over one rail.
struct JobLimit {
  FabricRail rail;
  JobId job;
  /// Of one that is not held back: what it is expected to send at most.
  double bytes_per_second = 0;
  bool held_back = false;
};

/// Shares out each of these by weight (max-min): who wants less than its share has what it wants,
/// and leaves the rest to the others. Nobody gets more than it wants.
struct Claim {
  double wanted = 0;
  double weight = 1;  ///< Above 0.
};
std::vector<double> ShareOut(std::span<const Claim> claims, double capacity);

/// How the jobs of all tenants share the links of a fabric that they meet on, whether or not they
/// have hosts in common: on each link the tenants by their weights, and the jobs of each alike.
///
/// What a job wants of a link is not known: it is taken to want somewhat more than it has had
/// lately, less of that while it does not take what it is granted (as in Kumar et al., "BwE:
/// flexible, hierarchical bandwidth allocation for WAN distributed computing", SIGCOMM 2015). But
/// one that is kept from its share by the others' queues could not show that it wants it: now and
/// then it is given room for all of it, and for as long as it makes use of that. Who has more than
/// its share, while others that send have less than theirs, is held back to what they
/// leave; all others are left alone, and take what has become free. So a job that is alone, or
/// whose neighbours want little, or have enough whenever they send, is never held back.
///
/// One thread's; time is passed in.
class LinkShares {
 public:
  /// Shares hold for so much of a link's capacity: headers and gaps take the rest.
  static constexpr double kUsable = 0.95;

  /// All flows of an interval that ended at `now_seconds`; what each edge can carry, bytes a
  /// second.
  void Take(std::span<const JobFlow> flows, const std::function<double(int edge)>& capacity,
            double now_seconds);

  /// For each rail that a job is held back on, all jobs that send over it.
  std::vector<JobLimit> Limits() const;

  /// What a job can have of those of `edges` that others use, if that is less than the edge
  /// carries; by edge, bytes a second. Changes only when it is off by more than noise.
  const std::map<int, double>& AvailableTo(const JobId& job, double weight,
                                           std::span<const int> edges);

 private:
  struct Flow {
    double mean = 0;  // bytes a second, of late, ...
    double last = 0;  // ... and in the last interval
    double sending = 1;
    double weight = 1;
    std::shared_ptr<const std::vector<CrossedEdge>> edges{};
  };
  /// Of one job on one edge.
  struct Part {
    JobId job;
    double weight = 1;  // the job's own: of the tenant's
    double mean = 0;
    double last = 0;
    double sending = 1;
    size_t flows = 0;
    double headroom = kMostHeadroom;
    double stretch = 1;  // its flows may send so many times their part of what is granted
    double granted = 0;
    bool held_back = false;

    double Wanted() const { return mean * (1 + headroom); }
  };
  struct EdgeParts {
    double capacity = 0;  // usable
    double weights = 0;   // of all jobs
    std::vector<Part> jobs;

    Part* Of(const JobId& job);
    /// The fair share of a weight of 1.
    double Unit() const { return capacity / weights; }
  };
  /// Of a job that is deprived of its share somewhere: whether it would take it.
  struct Trial {
    bool gives_room = false;
    double base = 0;  // what it had without room
    double rest_seconds = 0;
    double until_seconds = 0;

    void Take(double mean, double now_seconds);
  };
  static constexpr double kMostHeadroom = 0.3;

  void TakeMeans(std::span<const JobFlow> flows, double now_seconds);
  void SumUp(const std::function<double(int edge)>& capacity);
  static void Weigh(EdgeParts* edge);
  static bool IsDeprived(const Part& part, double unit);
  static double NeededBy(const Part& part, double unit);
  void GiveRoom(double now_seconds);
  double ClaimOf(const EdgeParts& edge, const Part& part, double unit) const;
  void Grant(EdgeParts* edge);
  static void Adapt(Part* part, double had);
  static double LeftFor(const EdgeParts& edge, const JobId& job, double weight);
  double LimitOf(const Flow& flow, const JobId& job, bool* held_back) const;

  std::map<std::pair<FabricRail, JobId>, Flow> flows_;
  std::vector<EdgeParts> edges_;                      // by edge
  std::vector<int> used_;                             // those that any job sends over
  std::set<JobId> held_back_;                         // on any edge
  std::map<JobId, Trial> trials_;                     // those deprived lately
  std::vector<Claim> claims_;                         // kept, so that an edge allocates nothing
  std::map<JobId, std::map<int, double>> available_;  // in force
  double taken_seconds_ = -1;
};

}  // namespace harmonaize
