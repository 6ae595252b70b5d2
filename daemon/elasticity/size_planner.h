#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "daemon/elasticity/elastic_world.h"
#include "daemon/elasticity/placement.h"

namespace harmonaize::daemon {

/// Why ranks are to come or leave.
enum class SizeReason : uint8_t {
  kNewcomer,  ///< A job that waits needs the places.
  kDeadline,  ///< A job would miss its deadline without them.
  kShortens,  ///< Free places shorten the job's steps.
  kTrade,     ///< Another job gains more by the places than this one loses.
  kCheaper,   ///< The job wants to be cheap, and is cheaper with fewer ranks.
};

/// Returns whether a change is wanted whatever comes next. What waits or is late does not come and
/// go with the noise of measured times.
constexpr bool IsUrgent(SizeReason reason) {
  return reason == SizeReason::kNewcomer || reason == SizeReason::kDeadline;
}

/// Ranks of a job that are to come to a host, or to leave it, which are negative.
struct SizeChange {
  size_t job = 0;   ///< Place in the world's jobs.
  size_t host = 0;  ///< Place in the world's hosts.
  int32_t ranks = 0;
  SizeReason reason = SizeReason::kShortens;
  /// Whether the places are free. Those that others have to leave first are not.
  bool is_possible = true;
  /// kTrade: the job that gains by the places.
  std::optional<size_t> taker = {};
};

/// Decides how large jobs should be, from one look at the world. Requires: the world outlives it.
///
/// Jobs that wait come first, then deadlines, then free places by what they gain, then trades, then
/// jobs that want to be cheap. What a rank brings is by how much it shortens the job, as the
/// logarithm of the ratio of speeds: the sum of these over jobs is largest where no rank would do
/// more elsewhere, whatever the jobs' units of progress.
class SizePlanner {
 public:
  /// `left_alone` tells of each job whether its size stays. `settling` tells of each whether it
  /// changes for jobs that wait and for deadlines alone; empty: none is.
  SizePlanner(const ElasticWorld& world, std::vector<bool> left_alone,
              const std::vector<bool>& settling = {});

  /// Returns the changes, one for a job and a host at most. No job both grows and shrinks. To be
  /// called once.
  std::vector<SizeChange> Plan();

 private:
  enum class Direction : uint8_t { kNone, kUp, kDown };
  /// What a job loses by one step less.
  struct Loss {
    double per_rank = 0;  // of the logarithm of its speed
    size_t host = 0;      // that the ranks leave
  };
  /// What changes as the plan is made; copied, to go back where a plan does not come off.
  struct Draft {
    Placement placement;
    std::vector<Direction> directions;        // by job
    std::vector<std::optional<Loss>> losses;  // by job: LossOf
    std::vector<SizeChange> changes;
    int32_t unreserved = 0;  // free places that no waiting job takes
    int32_t coming = 0;      // places that become free, and that nobody takes
  };
  using MayGive = std::function<bool(size_t)>;

  const ElasticJob& job(size_t i) const { return world_.jobs[i]; }
  bool MayMove(size_t i, Direction direction) const;
  double SecondsLeft(size_t i, double speed) const;
  bool MeetsDeadline(size_t i, double speed) const;
  double LeastCost(size_t i) const;
  int32_t CheapSize(size_t i);
  int32_t FindCheapSize(size_t i) const;
  double CostOf(size_t i, int32_t ranks) const;
  std::optional<int32_t> SizeForDeadline(size_t i) const;
  bool TenantMayHaveMore(size_t i, int32_t ranks) const;
  bool IsAboveShare(size_t i) const;
  std::optional<double> Gain(size_t i, std::optional<size_t> host);
  std::optional<Loss> LossOf(size_t i) const;
  std::optional<size_t> LeastHarmed(const MayGive& may_give) const;
  bool CanUse(size_t taker, size_t giver) const;

  void Grow(size_t i, size_t host, SizeReason reason, bool is_possible);
  int32_t Shrink(size_t i, SizeReason reason, std::optional<size_t> taker);
  bool Collect(int32_t places, const MayGive& may_give, SizeReason reason);
  std::optional<size_t> CollectFor(size_t taker, double bearable);
  void ServeWaiting();
  void ServeDeadlines();
  bool GrowTo(size_t i, int32_t size);
  void ShareFreePlaces();
  void Trade();
  void MakeCheaper();
  void LeaveSettlingAlone();
  void SeekGains();
  void LeaveOutTenants(const std::set<uint32_t>& tenants);
  bool CouldPay(size_t i) const;
  bool Pays(size_t i, double pause_seconds) const;
  bool IsWorth(size_t i, double speed, double pause_seconds) const;
  bool NoteWhatDoesNotPay(std::set<uint32_t>* tenants);

  const ElasticWorld& world_;
  std::vector<bool> left_alone_;  // by job: of what is planned now
  const std::vector<bool> settling_;
  const Placement first_;
  int64_t all_places_;                               // of jobs, and free
  std::vector<bool> gains_nothing_;                  // by job: growing would not pay
  std::vector<std::optional<int32_t>> cheap_sizes_;  // by job: CheapSize
  Draft draft_;
};

}  // namespace harmonaize::daemon
