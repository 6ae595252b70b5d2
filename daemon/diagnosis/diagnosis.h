#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/diagnosis.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/communicator/communicator_wait.h"
#include "daemon/communicator/late_explainer.h"
#include "daemon/diagnosis/hang_judge.h"
#include "daemon/diagnosis/process_table.h"
#include "daemon/diagnosis/process_watch.h"
#include "daemon/diagnosis/shared_wait.h"
#include "daemon/diagnosis/verdict.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/waiting_count.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class ClusterMessage;
class CommunicatorRegistry;
class EventLoop;
class Session;

/// Says of each communicator whose operations do not end which ranks are the cause, and why. It
/// gathers what the communicators wait for and what the awaited processes do (ProcessWatch), has a
/// HangJudge judge, and tells the ranks that wait and its observers. Of a communicator of several
/// hosts the home judges, by what the hosts tell it, and tells all hosts. Thread: engine.
class Diagnosis final : public CommunicatorObserver, public LateExplainer {
 public:
  struct Services {
    uint64_t late_after_ns = 0;
    /// Another daemon that has not answered for this long, and from which nothing at all has come
    /// for as long, is called unreachable.
    uint64_t silent_ns = 0;
    EventLoop* loop = nullptr;
    const CommunicatorRegistry* communicators = nullptr;
    WaitingCount* waiting = nullptr;
    Cluster* cluster = nullptr;  ///< nullptr where the host stands alone.
  };
  explicit Diagnosis(const Services& services);
  Diagnosis(const Diagnosis&) = delete;
  Diagnosis& operator=(const Diagnosis&) = delete;

  /// Adds an observer. Requires: it outlives this object.
  void Add(VerdictObserver* observer) { observers_.push_back(observer); }
  /// Looks at what waits. To be called regularly while anything does.
  void Tick(uint64_t now_ns);
  /// Has the next Tick look, though nothing seems to wait: ranks say that they wait in operations
  /// which they carry out themselves.
  void ExpectWaits() { watching_ = WaitingHold(*services_.waiting); }
  /// Takes in a message of another daemon. Returns false if it is none for the diagnosis.
  bool OnMessage(transport::PeerId peer, const ClusterMessage& message);
  /// Notes that another daemon is lost. Requires: the communicators have not heard of it yet.
  void OnPeerLost(transport::PeerId peer);

  /// The communicator's verdict; nullptr if nothing of it waits for long.
  const Verdict* Of(const Communicator& communicator) const;
  /// The verdicts of all communicators, faults or not.
  std::vector<const Verdict*> verdicts() const;

  // LateExplainer.
  std::string Explain(const Communicator& communicator, const OperationKey& operation,
                      const std::vector<int>& ranks) const override;

  // CommunicatorObserver.
  void OnRankLost(const Communicator& communicator, int rank, const RankLoss& loss) override;
  void OnMismatch(const Communicator& communicator, const Mismatch& mismatch) override;
  void OnBroken(const Communicator& communicator, const Status& why) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  using WaitKey = std::pair<uint64_t, OperationKey>;  // communicator, operation
  /// How far an operation had come when it was last looked at.
  struct Progress {
    uint64_t progress = 0;
    uint64_t since_ns = 0;
  };
  /// At another host: an operation that the home was told of.
  struct ToldHome {
    uint64_t told_ns = 0;
    uint64_t unanswered_ns = 0;  // since when the home has not answered; 0: it has
  };
  /// How many ranks of a communicator each process has.
  using RanksOfProcesses = std::unordered_map<const Session*, int>;
  /// What one look has gathered.
  struct Gathered {
    std::vector<WaitFact> facts;
    std::map<WaitKey, std::vector<PostedOperation*>> parts;  // those that wait
    std::map<WaitKey, std::vector<int>> ranks;  // those that wait in what they carry out themselves
    std::map<WaitKey, Progress> progress;
    std::map<uint32_t, size_t> of_tenant;  // waits, by TenantIdentity::number
  };

  // One host: diagnosis.cc.

  Gathered Gather(uint64_t now_ns);
  void GatherOf(const Communicator& communicator, uint64_t now_ns, Gathered* gathered);
  WaitFact FactOf(const Communicator& communicator, const CommunicatorWait& wait, uint64_t now_ns,
                  Gathered* gathered);
  static RanksOfProcesses CountRanks(const Communicator& communicator);
  AwaitedFact AwaitedOf(const Communicator& communicator, const AwaitedRank& rank,
                        const RanksOfProcesses& ranks, uint64_t now_ns);
  void GiveUp(const Gathered& gathered, uint64_t now_ns);
  void LookAtProcesses();
  void HoldWhileNeeded();
  void Tell(const std::vector<HangJudge::Told>& told, const Gathered* gathered);
  void Notify(Communicator* communicator, const Verdict& verdict, const Gathered* gathered);
  void ForgetMismatches(uint64_t now_ns);

  // Several hosts: diagnosis_hosts.cc.

  void NoteWhoDecides(const Communicator& communicator, WaitFact* fact) const;
  void ShareWaits(uint64_t now_ns, Gathered* gathered);
  void TellHome(const Communicator& communicator, const WaitIndex& waits, uint64_t now_ns,
                WaitFact* fact);
  void JudgeShared(uint64_t now_ns, Gathered* gathered);
  void TellHomeOfEnds(const Gathered& gathered);
  bool AskHosts(const Communicator& communicator, const OperationKey& key, SharedWait* shared,
                uint64_t now_ns, const WaitIndex& waits);
  WaitFact CombinedFact(const Communicator& communicator, const OperationKey& key,
                        const SharedWait& shared, uint64_t now_ns, const Gathered& gathered) const;
  StandingMessage StandingOf(const Communicator& communicator, const WaitFact& fact,
                             const WaitIndex& waits, uint64_t now_ns) const;
  StandingMessage AbsentHere(const Communicator& communicator, const OperationKey& key,
                             const WaitIndex& waits, uint64_t now_ns);
  void OnAskStanding(const Communicator& communicator, const AskStandingMessage& question);
  void OnStanding(const Communicator& communicator, int host, const StandingMessage& standing);
  void OnHang(Communicator* communicator, transport::PeerId peer, const HangMessage& hang);
  void TellHosts(const Communicator& communicator, const Verdict& verdict, bool cleared);
  void Send(const Communicator& communicator, transport::PeerId peer,
            const ClusterMessage& message) const;
  bool IsSilent(const std::optional<transport::PeerId>& peer, uint64_t unanswered_ns,
                uint64_t now_ns) const;
  void AnswerAnew(uint64_t now_ns);
  void TellStanding(const Communicator& communicator, const OperationKey& key, uint64_t now_ns);

  const Services services_;
  const HangJudge::Times times_;
  /// Time between two messages about one operation to one daemon.
  const uint64_t period_ns_;
  HangJudge judge_;
  ProcessTable processes_;
  std::vector<VerdictObserver*> observers_;
  uint64_t next_ns_ = 0;
  std::map<WaitKey, Progress> progress_;
  bool by_ranks_ = false;  ///< At the last look ranks waited in what they carry out themselves.
  std::vector<ProcessWatch::Wanted> wanted_;  // for the next call of LookAtProcesses
  std::map<WaitKey, SharedWait> shared_;
  std::map<WaitKey, ToldHome> told_home_;
  std::set<WaitKey> asked_here_;            ///< By homes, before the processes were looked at.
  std::map<uint64_t, uint64_t> told_here_;  // by communicator: when the home last told its verdict
  /// Held while hosts wait for this one's word, or a verdict may end.
  WaitingHold watching_;
  Lifetime lifetime_;
  // Declared last: its thread posts to this object's loop.
  ProcessWatch watch_;
};

}  // namespace harmonaize::daemon
