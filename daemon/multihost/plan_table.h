#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/planning.h"
#include "daemon/jobs/job_share.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/plan_control.h"
#include "daemon/multihost/plan_switching.h"
#include "daemon/plans/fabrics.h"
#include "daemon/plans/home_planner.h"
#include "daemon/plans/host_plan.h"
#include "daemon/runtime/lifetime.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

class Communicator;
class HostGroup;

/// The plan for one collective and size class, and what its operations took.
struct PlanRecord {
  CollectivePlan plan;
  uint64_t operations = 0;  ///< Operations that were done by it.
  double seconds = 0;       ///< Their time, together.
  uint64_t bytes = 0;       ///< Bytes of their units, together.
};

/// The plans of a communicator that spans hosts, at one of these: asks the home for them, makes
/// this host's part of each, and reaches the daemons that it exchanges messages with. Thread:
/// engine.
class PlanTable {
 public:
  /// The table is part of `group`, which is being made.
  PlanTable(const HostServices& services, Communicator* communicator, HostGroup* group);

  /// Returns how a collective is carried out here; nullptr while that is being found out or about
  /// to change. Communicator::OnPlanReady follows then. Returns an error if there is no plan.
  Result<HostPlan*> PlanFor(const OperationDescriptor& descriptor);
  /// Returns in the same way how a send to a rank of another host, or a receive from it, is carried
  /// out.
  Result<HostPlan*> PairPlanFor(int rank, bool sends);
  /// Counts a collective that PlanFor was asked for, and that is done now.
  void CountOperation(const OperationDescriptor& descriptor, double seconds);
  /// Returns what an operation of this kind and size has taken on average under its plan, in
  /// seconds; 0 while too few have been carried out.
  double UsualSeconds(const OperationDescriptor& descriptor) const;
  /// Returns the plans that are in use now; of many, those whose operations took the most time.
  std::vector<PlanRecord> Records() const;
  /// At the home: the planner that chooses the plans; elsewhere nullptr.
  const HomePlanner* home_planner() const { return home_planner_.get(); }

  /// Takes in what links carry now, by the home's word. Messages of all plans are dealt out by
  /// that.
  void OnRates(const EdgeRates& rates);

  /// Has plans made by what was granted to the job since.
  void OnTermsChanged();

  /// Returns the share of links that the communicator's messages have now. Requires: the
  /// communicator is known.
  const transport::TenantShare& share();
  /// Returns the floor that was granted to its job, in bytes per second; 0: none.
  double granted_floor() {
    share();
    return share_.floor();
  }
  /// Tells that the controller has refused this floor; 0: none.
  void SetRefusedFloor(double floor) { share_.SetRefusedFloor(floor); }

  // Plans that change.

  PlanSwitching& switching() { return switching_; }
  const PlanSwitching& switching() const { return switching_; }
  /// Returns the newest plan of a key, which it goes by or will; nullptr if no operation has asked
  /// for it, or if it is not known.
  const PlanRecord* Newest(const PlanKey& key) const;
  /// Takes in a plan that is in use at other hosts, also if no operation here has asked for it.
  void Ensure(const CollectivePlan& plan);
  /// Makes this host's part of a plan, and calls `done` with it later, unless the communicator is
  /// gone by then. Errors: kRemoteError if a daemon that it exchanges messages with cannot be
  /// reached, and others.
  void Make(const CollectivePlan& plan,
            std::function<void(Result<std::unique_ptr<HostPlan>>)> done);
  /// Adds a plan for the collectives from this sequence number on.
  void AddVersion(uint64_t from, const CollectivePlan& plan, std::unique_ptr<HostPlan> made);
  /// At the home: decides when plans change; elsewhere nullptr.
  PlanControl* control() { return control_.get(); }
  const PlanControl* control() const { return control_.get(); }

  /// At the home: answers a host that asks for a plan.
  void OnAskPlan(transport::PeerId peer, const AskPlanMessage& question);
  void OnPlan(const CollectivePlan& plan);
  /// Makes what waits for the fabric, which has come, or fails it if the fabric will not come.
  void OnFabric(const Status& status);

 private:
  struct Version {
    PlanRecord record;
    std::unique_ptr<HostPlan> plan;  // nullptr: not made yet
  };
  struct PlanEntry {
    // By version: the first collective that goes by it, see VersionFor.
    std::vector<uint64_t> begin_at = {0};
    std::vector<Version> versions{1};
    Status failure;  // why the first version was not made
  };
  struct PairEntry {
    std::unique_ptr<HostPlan> plan;
    Status failure;
  };
  int64_t KeptBytes() const;
  static PlanKey KeyFor(const OperationDescriptor& descriptor);
  PlanTerms TermsOf(const PlanKey& key) const;

  void TellRates(const EdgeRates& rates);
  void DealAnew(HostPlan* plan);
  void MakeFirst(const PlanKey& key);
  void DropOldVersions(PlanEntry* entry);
  void Finish(HostPart part, std::function<void(Result<std::unique_ptr<HostPlan>>)> done);
  int HostOfFabricHost(int fabric_host) const;
  std::vector<int> FabricHostOfRank() const;
  Status CheckFabric() const;
  void FailPlan(const PlanKey& key, const Status& why);

  const HostServices& services_;
  Communicator* const communicator_;
  HostGroup* const host_group_;
  CommunicatorShare share_;
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
