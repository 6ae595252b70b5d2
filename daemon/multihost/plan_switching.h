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

/// A change of plans, for reports.
struct PlanChange {
  double unix_seconds = 0;  ///< When it was proposed.
  std::string reason;
  std::vector<CollectivePlan> before{};
  std::vector<CollectivePlan> after{};
  enum class Outcome { kUnderWay, kCommitted, kCalledOff };
  Outcome outcome = Outcome::kUnderWay;
  uint64_t from = 0;         ///< kCommitted: the first collective that goes by the new plans.
  std::string called_off{};  ///< Why it was called off.
  double took_seconds = 0;   ///< Time until it was settled.
};

/// Makes the plans of a communicator change alike at all of its hosts (plan_switch.h). Thread:
/// engine.
class PlanSwitching {
 public:
  PlanSwitching(Communicator* communicator, HostGroup* group, PlanTable* plans);

  /// At the home: proposes these plans in place of those that are in use for the same keys. Returns
  /// false if no change can begin now, since one is under way, a rank has left, or a key has no
  /// plan.
  bool Propose(std::vector<CollectivePlan> next, std::string reason);
  bool under_way() const { return leader_.under_way(); }
  /// At the home: the last changes, the newest last.
  const std::deque<PlanChange>& history() const { return history_; }

  /// Returns whether a collective of this key may begin: not if its plan is about to change.
  bool MayBegin(const PlanKey& key, uint64_t sequence) const {
    return follower_.MayBegin(sequence) || !ready_.contains(key);
  }

  void OnPropose(const ProposeMessage& proposal);
  void OnSettle(const SettleMessage& settlement);
  /// At the home: takes in a host's promise, or its refusal.
  void OnPromise(int host, const PromiseMessage& promise);
  /// Calls off the change that is under way, if any. No plan changes any more.
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
    std::unique_ptr<HostPlan> plan;  ///< nullptr: not made yet.
  };
  std::map<PlanKey, Ready> ready_;  // of the round that is under way here

  SwitchLeader leader_;
  std::deque<PlanChange> history_;
  uint64_t proposed_ns_ = 0;
};

}  // namespace harmonaize::daemon
