#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/cluster/agreement.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/consent.h"
#include "daemon/cluster/fabrics.h"
#include "daemon/cluster/host_plan.h"
#include "daemon/cluster/messages.h"
#include "daemon/cluster/plan_desk.h"
#include "daemon/cluster/roster.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

class Communicator;
class Engine;

/// What was planned for one collective and size class, and how it went since.
struct PlanRecord {
  PlanMessage plan;
  uint64_t operations = 0;  ///< Done by it.
  double seconds = 0;       ///< Of those, together.
  uint64_t bytes = 0;       ///< Of their units, together.
};

/// What a communicator that spans hosts needs beyond one that does not: who is where, the plans,
/// and the ways to its home and to other hosts. For the engine's thread.
class Span {
 public:
  Span(Engine* engine, Communicator* communicator, Roster roster);
  ~Span();

  const Roster& roster() const { return roster_; }
  bool is_home() const { return roster_.home == 0; }

  // Plans.

  /// How a collective is carried out here; nullptr while that is being found out, and then
  /// Communicator::OnPlanReady follows. Error: there is no plan.
  Result<HostPlan*> PlanFor(const OperationDescriptor& descriptor);
  /// The same for a send to a rank of another host, or a receive from it.
  Result<HostPlan*> PairPlanFor(int rank, bool sends);
  /// A collective that PlanFor was asked for is done.
  void CountOperation(const OperationDescriptor& descriptor, double seconds);
  std::vector<PlanRecord> Plans() const;
  /// At the home: what was chosen from; elsewhere nullptr.
  const PlanDesk* plan_desk() const { return plan_desk_.get(); }
  /// nullptr until it has come from the home.
  const KnownFabric* fabric() const;
  /// The fabric has come, or will not.
  void OnFabric(const Status& status);

  // The names of its operations' messages, alike at all hosts and no other's.

  static uint64_t CollectiveNumber(uint64_t key, uint64_t sequence);
  static uint64_t PairNumber(uint64_t key, int from, int to, uint64_t number);
  uint64_t CollectiveNumber(uint64_t sequence) const {
    return CollectiveNumber(roster_.key, sequence);
  }
  uint64_t PairNumber(int from, int to, uint64_t number) const {
    return PairNumber(roster_.key, from, to, number);
  }

  // What is said.

  void TellHome(const ClusterMessage& message);
  /// To the home, which passes it on; without a home to all that were reached.
  void TellLeft(const LeftMessage& left);
  /// From the home to all other hosts.
  void TellHosts(const ClusterMessage& message, int except = -1);
  /// To the daemon of a rank.
  void TellHostOf(int rank, const ClusterMessage& message);
  /// To all daemons that were reached.
  void TellReached(const ClusterMessage& message);
  /// At the home: takes in what a host says of a collective.
  void OnProgress(int host, const ProgressMessage& progress);
  /// This host has begun a collective, see AwaitedConsent. `asks`: Communicator::OnAgreed follows
  /// as soon as all have; else when much has been begun.
  void NoteBegun(const BegunCollective& begun, bool asks);
  /// Whether a collective that was noted may be called done here. Else it may at some later
  /// Communicator::OnAgreed.
  bool MayEnd() const { return awaited_consent_.may_end(); }
  /// Tells the home what it has not been told.
  void TellBegun(bool asks = false);
  /// The home's word.
  void OnAgreed(uint64_t sequence) { awaited_consent_.Agree(sequence); }
  /// At the home: what a host has begun.
  void OnBegun(int host, const BegunMessage& message);
  /// At the home: what is late.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  /// At the home.
  void OnAskPlan(transport::PeerId peer, const AskPlanMessage& question);
  void OnPlan(const PlanMessage& plan);

  /// Collectives from there on end without a verdict, at all hosts.
  void EndFrom(uint64_t sequence);
  /// Learns that a rank's daemon is this peer. False: it is another.
  bool NotePeer(int rank, transport::PeerId peer);

  /// Drops what came, or will, of an operation that has ended badly.
  void Forget(uint64_t number);
  /// The same for what a peer sent of a communicator's collectives, up to as many as it has begun.
  static void DropCollectives(transport::Transport* transport, transport::PeerId peer, uint64_t key,
                              uint64_t first, uint64_t begun);

 private:
  using PlanKey = std::tuple<int, int, int>;  // collective, root, size class
  struct PlanEntry {
    PlanRecord record;
    std::unique_ptr<HostPlan> plan;
    Status failure;
  };
  struct PairEntry {
    std::unique_ptr<HostPlan> plan;
    Status failure;
  };

  void MakeInBackground(const PlanKey& key);
  void Finish(HostPart part, std::function<void(Result<std::unique_ptr<HostPlan>>)> done);
  void ReachHost(int host, std::function<void(const Status&)> done);
  int HostOfFabricHost(int fabric_host) const;
  std::vector<int> FabricHostOfRank() const;
  bool HasLeft(int host) const;
  void ActOn(uint64_t sequence, const Agreement::Outcome& outcome);
  void LookAgain();
  void CountOpenCases();
  void CountUntold();
  Status CheckFabric() const;
  void FailPlan(const PlanKey& key, const Status& why);
  void BreakSoon(const Status& why);

  Engine* const engine_;
  Communicator* const communicator_;
  Roster roster_;
  std::map<PlanKey, PlanEntry> plans_;
  std::set<PlanKey> await_fabric_;
  std::map<std::pair<int, bool>, PairEntry> pairs_;  // by host, sends
  std::set<std::pair<int, bool>> pairs_await_fabric_;
  std::unique_ptr<PlanDesk> plan_desk_;
  std::unique_ptr<Agreement> agreement_;
  std::unique_ptr<Consent> consent_;
  AwaitedConsent awaited_consent_;
  size_t counted_cases_ = 0;     // for which the engine looks for late ranks
  bool untold_counted_ = false;  // the engine looks here for what is to be told
};

}  // namespace harmonaize::daemon
