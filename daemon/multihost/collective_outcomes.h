#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/matched_operation.h"
#include "daemon/communicator/operation_set.h"
#include "daemon/communicator/waiting_operations.h"
#include "daemon/multihost/collective_history.h"
#include "daemon/runtime/waiting_count.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Communicator;
class HostGroup;

/// Tracks how a communicator's collectives stand and end on this host. It tells the home of those
/// that fail or take long, and the home says how these end at all hosts. Thread: engine.
class CollectiveOutcomes {
 public:
  /// Requires: all of them outlive this object.
  CollectiveOutcomes(WaitingCount* waiting, Communicator* communicator, HostGroup* group)
      : waiting_(waiting), communicator_(communicator), group_(group) {}

  // Collectives here.

  /// Notes that the first part of a collective has come. Another host may have decided its end
  /// already.
  void OnFirstPart(MatchedOperation* operation);
  /// Notes that the network carries out a collective from now on.
  /// Does not throw after MakeRoom.
  void AddRunning(MatchedOperation* operation) { running_.Add(operation); }
  void MakeRoom() { running_.MakeRoom(); }
  void RemoveRunning(MatchedOperation* operation) { running_.Remove(operation); }
  bool any_running() const { return !running_.empty(); }
  /// Keeps a collective that has ended here until the home says how it ends.
  void Hold(MatchedOperation* operation);
  /// Notes that a collective is done here. It has succeeded once all hosts are known to have begun
  /// the same, or, if it has elements, once enough of the earlier ones are known to
  /// (HostGroup::MayEnd).
  void EndHere(MatchedOperation* operation);
  /// Notes that an operation of the ranks here has ended, or is about to, with this outcome.
  void NoteEnd(const MatchedOperation& operation, const Status& outcome);
  /// Ends the begun collectives from this one on early: they cannot be carried out.
  void EndFrom(uint64_t sequence, const Status& why);
  /// Ends all collectives early.
  void FailAll(const Status& why);

  // What the home is told, and says.

  /// Tells the home where this host stands with a collective.
  void TellProgress(uint64_t sequence);
  /// Does that if the home has asked, and has had no final answer.
  void TellIfWanted(uint64_t sequence) {
    if (wanted_.contains(sequence)) TellProgress(sequence);
  }
  /// Takes in the home's word how a collective ends.
  void OnVerdict(uint64_t sequence, const Status& verdict);
  /// Takes in the home's word that all hosts have begun the same collectives up to this one, see
  /// StartConfirmations.
  void OnAgreed(uint64_t sequence);
  /// Takes in the home's word that ranks keep a collective waiting.
  void OnLate(const LateMessage& late);

  // Ranks that are late.

  /// Tells the home of ranks that do not get on, and of collectives that take long.
  void ReportLate(uint64_t now_ns, uint64_t late_after_ns);
  /// Adds the collectives that wait for ranks of other hosts.
  void AddWaiting(uint64_t now_ns, WaitingOperations* waiting) const;

 private:
  MatchedOperation* FindRunning(uint64_t sequence) const;
  MatchedOperation* TakeHeld(uint64_t sequence);
  ProgressMessage ProgressOf(uint64_t sequence) const;
  void ListAbsent(ProgressMessage* progress, const MatchedOperation* waiting) const;
  void ReportFilling(uint64_t now_ns, uint64_t late_after_ns);
  void TellSlow(uint64_t now_ns);
  void Want(uint64_t sequence);
  /// Calls `call` with each collective that was launched and has not ended for its ranks.
  template <typename Call>
  void ForEachBegun(Call&& call) const {
    for (MatchedOperation* operation : running_) call(operation);
    for (MatchedOperation* operation : held_) call(operation);
  }

  WaitingCount* const waiting_;
  Communicator* const communicator_;
  HostGroup* const group_;
  OperationSet<MatchedOperation> running_;
  std::vector<MatchedOperation*> held_;        // ended here; the home will say how it ends
  std::map<uint64_t, Status> early_verdicts_;  // by sequence, before any rank has come
  std::set<uint64_t> wanted_;                  // sequences that the home asked about
  CollectiveHistory history_;
};

}  // namespace harmonaize::daemon
