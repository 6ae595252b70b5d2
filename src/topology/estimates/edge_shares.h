#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/topology/estimates/room_trials.h"
#include "src/topology/estimates/share_out.h"
#include "src/topology/estimates/sharer.h"

namespace harmonaize {

/// An edge of a fabric, and the fraction of a flow that crosses it: less than 1 where routers
/// choose.
struct CrossedEdge {
  int edge = 0;
  double part = 1;
};

/// What a communicator sends over one rail.
struct SentFlow {
  double mean = 0;     ///< Bytes a second, smoothed.
  double last = 0;     ///< Bytes a second in the last interval.
  double sending = 1;  ///< Fraction of the time in which it sends, as in JobFlow.
  double busy = 0;     ///< As in JobFlow.
  double weight = 1;   ///< Weight of the tenant, with a priority in it.
  LinkTerms terms{};
  std::shared_ptr<const std::vector<CrossedEdge>> edges{};
};

/// Shares out one edge of a fabric among those that send over it: see LinkShares.
///
/// Thread: one.
class EdgeShares {
 public:
  /// Most headroom of a sharer, as a fraction of its mean rate.
  static constexpr double kMostHeadroom = 0.3;

  /// What a sharer has of the edge.
  struct Part {
    LinkTerms terms{};
    /// The sharer's own weight: its part of the tenant's, without the factor of its priority.
    double plain_weight = 1;
    double floor = 0;  ///< Its floor here, of which others may have to leave something.
    double cap = std::numeric_limits<double>::infinity();  ///< Likewise, or of the tenant's.
    double fair = 0;        ///< What it would get if all wanted all they can have.
    double plain_fair = 0;  ///< Likewise, if there were no priorities: its plain share.
    double mean = 0;
    double last = 0;
    double sending = 0;
    double busy = 0;  ///< Of its busiest flow.
    size_t flows = 0;
    double headroom = kMostHeadroom;
    /// Factor by which its flows may exceed their part of the grant, if a cap holds it back.
    double stretch = 1;
    double needed = 0;  ///< What others have to leave to it.
    double had = 0;     ///< What was granted in the interval before.
    double granted = 0;
    bool held_back = false;  ///< For others that lack their share.
    bool capped = false;     ///< It is held back to its cap.

    double Wanted() const { return mean * (1 + headroom); }
    /// Returns whether a priority gives it more of the edge than its plain share.
    bool IsPreferred() const;
    bool IsDeprived() const;
    bool IsDeprivedOfFloor() const;
    /// Returns whether it has less of its floor than a tenant is told of as missed.
    bool MissesFloor() const;
    /// Returns whether the edge carries so little that its share misses its floor.
    bool LacksRoomForFloor() const;
  };

  /// Forgets what was sent in the last interval, but not what was granted.
  void Begin();
  /// Adds a flow of which this part crosses the edge.
  void Add(const Sharer& sharer, const SentFlow& flow, double part);
  /// To be called when all flows of the interval are added. `capacity`: what the edge can carry, in
  /// bytes a second.
  void FindFair(double capacity);
  /// Decides what each gets, and who is held back.
  void Grant(const RoomTrials& trials);

  double capacity() const { return capacity_; }
  const std::map<Sharer, Part>& parts() const { return parts_; }
  bool empty() const { return parts_.empty(); }

  /// Returns whether a sharer is given room here because of its trial.
  static bool HasRoom(const Sharer& sharer, const Part& part, const RoomTrials& trials);
  /// Returns what one flow of a sharer that is held back may send: its part of the grant, which it
  /// may exceed while its tenant does not use all that is granted. Infinity: the sharer is not held
  /// back here.
  double ShareLimitOf(const Sharer& sharer, double flow_mean) const;
  /// Likewise, of a sharer that a cap holds back.
  double CapLimitOf(const Sharer& sharer, double flow_mean) const;
  /// Returns what a communicator would get if it wanted all of the edge. `weight` is its tenant's,
  /// and `own_mean` what it has itself of what its sharer sends.
  double LeftFor(const Sharer& sharer, double weight, double own_mean) const;

 private:
  /// What the sharers of one tenant and priority have together. Who sends by one owner after the
  /// other gets no more for that.
  struct Group {
    size_t sharers = 0;
    double weight = 1;        // of the tenant, with the factor of the priority
    double plain_weight = 1;  // without it
    double fair = 0;
    double mean = 0;
    double last = 0;
    double wanted = 0;
    double needed = 0;
    double had = 0;
    double granted = 0;
    /// Factor by which their flows may exceed their parts of the grant.
    double stretch = 1;
    bool held_back = false;      // all of them
    bool any_held_back = false;  // at least one of them
  };
  using GroupId = std::pair<uint32_t, int>;
  static GroupId GroupOf(const Sharer& sharer) { return {sharer.tenant, sharer.priority}; }

  void Weigh();
  void DivideTerms();
  void ShareByTerms(double Group::*weight, double Part::*share);
  std::vector<double> Divide(double Group::*weight);
  double RoomFor(const Sharer& sharer, const Part& part, const RoomTrials& trials) const;
  double ClaimOf(const Sharer& sharer, const Part& part, const RoomTrials& trials) const;
  double NeededBy(const Sharer& sharer, const Part& part, const RoomTrials& trials) const;
  double MuchAbove() const;
  double LeftByWeight(double left) const;
  void SumUpGroups(const RoomTrials& trials);
  void HoldBack();
  void ReleaseOne();
  static bool ExceedsCap(const Part& part);
  void Adapt();
  static double PartOfGrant(const Part& part, double flow_mean);

  double capacity_ = 0;  // usable
  std::map<Sharer, Part> parts_;
  std::map<GroupId, Group> groups_;
  std::vector<Claim> claims_;  // of the parts, in their order
};

}  // namespace harmonaize
