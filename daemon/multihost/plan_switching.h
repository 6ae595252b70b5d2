#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages/planning.h"
#include "daemon/plans/host_plan.h"
#include "daemon/plans/plan_switch.h"

namespace harmonaize::daemon {

class Communicator;
class PlanTable;
class HostGroup;

/// A change of plans, for people.
struct PlanChange {
  double unix_seconds = 0;  ///< When it was proposed.
  std::string reason;
  std::vector<CollectivePlan> before{};
  std::vector<CollectivePlan> after{};
  enum class Outcome { kUnderWay, kCommitted, kCalledOff };
  Outcome outcome = Outcome::kUnderWay;
  uint64_t from = 0;         ///< kCommitted: the first collective that goes by the new plans.
  std::string called_off{};  ///< Why.
  double took_seconds = 0;   ///< Until it was settled.
};

/// Sees to it that the plans of a communicator change at all of its hosts alike (plan_switch.h).
/// For the engine's thread.
class PlanSwitching {
 public:
  PlanSwitching(Communicator* communicator, HostGroup* group, PlanTable* plans);

  /// At the home: these plans instead of those that are in use for the same. False: it cannot be
  /// now, since a change is under way or a rank has left.
  bool Propose(std::vector<CollectivePlan> next, std::string reason);
  bool under_way() const { return leader_.under_way(); }
  /// At the home: the last changes, the newest last.
  const std::deque<PlanChange>& history() const { return history_; }

  /// Whether a collective may begin whose plan is about this: not if that is about to change.
  bool MayBegin(const PlanKey& key, uint64_t sequence) const {
    return follower_.MayBegin(sequence) || !ready_.contains(key);
  }

  void OnPropose(const ProposeMessage& proposal);
  void OnSettle(const SettleMessage& settlement);
  /// At the home.
  void OnPromise(int host, const PromiseMessage& promise);
  /// At the home: no plan changes any more.
  void OnRankLeft();

 private:
  void OnMade(uint64_t round, const PlanKey& key, Result<std::unique_ptr<HostPlan>> made);
  void Promise();
  uint64_t OperationsAhead() const;
  void TellAll(const std::optional<SwitchLeader::Settlement>& settlement,
               const std::string& called_off);

  Communicator* const communicator_;
  HostGroup* const host_group_;
  PlanTable* const plans_;

  SwitchFollower follower_;
  struct Ready {
    CollectivePlan message;
    std::unique_ptr<HostPlan> plan;  ///< nullptr: not yet.
  };
  std::map<PlanKey, Ready> ready_;  // of the round that is under way here

  SwitchLeader leader_;
  std::deque<PlanChange> history_;
  uint64_t proposed_ns_ = 0;
};

}  // namespace harmonaize::daemon
