#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/planning.h"
#include "daemon/multihost/plan_control.h"
#include "daemon/multihost/plan_services.h"
#include "daemon/multihost/plan_switching.h"
#include "daemon/plans/fabrics.h"
#include "daemon/plans/home_planner.h"
#include "daemon/plans/host_plan.h"
#include "daemon/runtime/lifetime.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

class Communicator;
class HostGroup;

/// What was planned for one collective and size class, and how it went since.
struct PlanRecord {
  CollectivePlan plan;
  uint64_t operations = 0;  ///< Done by it.
  double seconds = 0;       ///< Of those, together.
  uint64_t bytes = 0;       ///< Of their units, together.
};

/// How the operations of a communicator that spans hosts are carried out at this one: asks the
/// home, makes this host's part, and reaches the daemons that it exchanges messages with. For the
/// engine's thread.
class PlanTable {
 public:
  /// Part of `span`, which is being made.
  PlanTable(const PlanServices& services, Communicator* communicator, HostGroup* group);

  /// How a collective is carried out here; nullptr while that is being found out or about to
  /// change, and then Communicator::OnPlanReady follows. Error: there is no plan.
  Result<HostPlan*> PlanFor(const OperationDescriptor& descriptor);
  /// The same for a send to a rank of another host, or a receive from it.
  Result<HostPlan*> PairPlanFor(int rank, bool sends);
  /// A collective that PlanFor was asked for is done.
  void CountOperation(const OperationDescriptor& descriptor, double seconds);
  /// In use now.
  std::vector<PlanRecord> Records() const;
  /// At the home: what was chosen from; elsewhere nullptr.
  const HomePlanner* home_planner() const { return home_planner_.get(); }

  /// What links carry now, by the home: messages of all plans are dealt out by that.
  void OnRates(const EdgeRates& rates);

  // Plans that change.

  PlanSwitching& switching() { return switching_; }
  const PlanSwitching& switching() const { return switching_; }
  /// What a key goes by, or will; nullptr if nobody asked, or there is none.
  const PlanRecord* Newest(const PlanKey& key) const;
  /// Here nobody may have asked yet for a plan that is in use elsewhere.
  void Ensure(const CollectivePlan& plan);
  /// This host's part of a plan, later; nothing where the communicator is gone by then. Errors:
  /// kRemoteError where a daemon that it exchanges messages with cannot be reached, and others.
  void Make(const CollectivePlan& plan,
            std::function<void(Result<std::unique_ptr<HostPlan>>)> done);
  /// Goes before what there is, for collectives from there on.
  void AddVersion(uint64_t from, const CollectivePlan& plan, std::unique_ptr<HostPlan> made);
  /// At the home: when they change; elsewhere nullptr.
  PlanControl* control() { return control_.get(); }
  const PlanControl* control() const { return control_.get(); }

  /// At the home.
  void OnAskPlan(transport::PeerId peer, const AskPlanMessage& question);
  void OnPlan(const CollectivePlan& plan);
  /// The fabric has come, or will not.
  void OnFabric(const Status& status);

 private:
  struct Version {
    PlanRecord record;
    std::unique_ptr<HostPlan> plan;  // nullptr: not made yet
  };
  struct PlanEntry {
    std::vector<uint64_t> begin_at = {0};  // of versions: VersionFor
    std::vector<Version> versions{1};
    Status failure;  // of the first
  };
  struct PairEntry {
    std::unique_ptr<HostPlan> plan;
    Status failure;
  };
  static PlanKey KeyFor(const OperationDescriptor& descriptor);

  void TellRates(const EdgeRates& rates);
  void DealAnew(HostPlan* plan);
  void MakeFirst(const PlanKey& key);
  void DropOldVersions(PlanEntry* entry);
  void Finish(HostPart part, std::function<void(Result<std::unique_ptr<HostPlan>>)> done);
  int HostOfFabricHost(int fabric_host) const;
  std::vector<int> FabricHostOfRank() const;
  Status CheckFabric() const;
  void FailPlan(const PlanKey& key, const Status& why);
  void BreakSoon(const Status& why);

  const PlanServices& services_;
  Communicator* const communicator_;
  HostGroup* const host_group_;
  EdgeRates rates_;  // of links that carry something else than the fabric states
  std::map<PlanKey, PlanEntry> plans_;
  std::set<PlanKey> await_fabric_;
  std::map<std::pair<int, bool>, PairEntry> pairs_;  // by host, sends
  std::set<std::pair<int, bool>> pairs_await_fabric_;
  std::unique_ptr<HomePlanner> home_planner_;
  PlanSwitching switching_;
  std::unique_ptr<PlanControl> control_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
