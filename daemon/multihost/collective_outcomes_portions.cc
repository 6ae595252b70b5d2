// What concerns many collectives of a communicator: ranks that leave, word that all hosts have
// begun them, and the communicator's end.

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/multihost/collective_outcomes.h"
#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {
namespace {

/// Most collectives that are ended at once, before the engine looks at other tenants' work.
constexpr size_t kPortionsEndedAtOnce = 128;

}  // namespace

CollectiveOutcomes::CollectiveOutcomes(WaitingCount* waiting, Communicator* communicator,
                                       HostGroup* group)
    : waiting_(waiting),
      communicator_(communicator),
      group_(group),
      portions_(communicator, kPortionsEndedAtOnce, [this] { return DoOne(); }) {}

void CollectiveOutcomes::OnAgreed(uint64_t sequence) {
  group_->OnAgreed(sequence);
  agreed_end_ = std::max(agreed_end_, sequence + 1);
  portions_.Begin();
}

// Those from an earlier call's number on end by that call.
void CollectiveOutcomes::EndFrom(uint64_t sequence, const Status& why) {
  wanted_.erase(wanted_.lower_bound(sequence), wanted_.end());
  early_verdicts_.erase(early_verdicts_.lower_bound(sequence), early_verdicts_.end());
  if (sequence >= ends_from_) return;
  endings_.push_back({.next = sequence, .before = ends_from_, .why = why});
  ends_from_ = sequence;
  ends_why_ = why;
  portions_.Begin();
}

// What was to end before is part of this.
void CollectiveOutcomes::FailAll(const Status& why) {
  endings_.clear();
  endings_.push_back({.next = 0, .before = UINT64_MAX, .why = why, .broken = true});
  portions_.Begin();
}

// Does one piece of what is due. Returns false if nothing is.
bool CollectiveOutcomes::DoOne() {
  if (endings_.empty()) return SettleOneDone();
  EndOne();
  return true;
}

// Tells the next collective of the first ending that it ends; or removes an ending that has no
// more.
void CollectiveOutcomes::EndOne() {
  Ending& ending = endings_.front();
  if (MatchedOperation* const held = FirstHeldFrom(ending.next);
      held != nullptr && held->sequence < ending.before) {
    TakeHeld(held->sequence);
    held->network.told = true;
    return communicator_->Settle(held, ending.why);
  }
  MatchedOperation* const running = running_.FirstFrom(ending.next);
  if (running == nullptr || running->sequence >= ending.before) return endings_.pop_front();
  ending.next = running->sequence + 1;
  EndRunning(running, ending);
}

// What the network holds ends soon, and OtherHosts::OnNetworkDone then tells of the failure.
void CollectiveOutcomes::EndRunning(MatchedOperation* operation, const Ending& ending) {
  if (!ending.broken) {
    operation->verdict = ending.why;
    operation->network.told = true;
  }
  operation->network.execution->Cancel(ending.why);
}

// Returns a held collective from this number on; nullptr if there is none.
MatchedOperation* CollectiveOutcomes::FirstHeldFrom(uint64_t sequence) const {
  MatchedOperation* first = nullptr;
  for (const OperationsBySequence& held : held_) {
    MatchedOperation* const one = held.FirstFrom(sequence);
    if (one != nullptr && (first == nullptr || one->sequence < first->sequence)) first = one;
  }
  return first;
}

// Ends a collective that is done and waits for nothing any more. Returns false if there is none.
bool CollectiveOutcomes::SettleOneDone() {
  for (const Held why : {kDone, kNoElements}) {
    MatchedOperation* const operation = held_[why].FirstFrom(0);
    if (operation == nullptr) continue;
    const bool agreed = operation->sequence < agreed_end_;
    if (!agreed && (why == kNoElements || !group_->MayEnd())) continue;
    held_[why].Take(operation->sequence);
    communicator_->Settle(operation, Status::Ok());
    return true;
  }
  return false;
}

}  // namespace harmonaize::daemon
