#include "daemon/multihost/collective_outcomes.h"

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/late_reporter.h"
#include "daemon/communicator/wait_lister.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, after which the home is told, once, that an operation is under way.
constexpr uint64_t kSlowNanoseconds = 100'000'000;
/// Slow operations that the home is told of in one look. A tenant may have tens of thousands under
/// way; the next look goes on.
constexpr int kSlowToldAtOnce = 64;
/// Collectives of each stage that one look for late ranks, or a report of waiting operations, looks
/// at. The next look for late ranks goes on behind them.
constexpr size_t kLookedAt = 256;
/// The most collectives under way that the diagnosis is told of. The first ones keep the others.
constexpr size_t kMostListed = 4;
/// Verdicts that are kept for collectives that no rank here has posted, and sequence numbers that
/// the home has asked about. Hosts that are further apart end their communicator.
constexpr size_t kMostKept = 16'384;

Status TooFarApart() {
  return RemoteError("hosts are more than {} collectives apart", kMostKept);
}

RankRequest RequestFrom(const PostedOperation& part) {
  const OperationDescriptor& descriptor = part.descriptor;
  return {.rank = part.member->rank,
          .collective = descriptor.collective,
          .count = descriptor.count,
          .type = descriptor.type,
          .op = descriptor.op,
          .root = descriptor.root};
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Collectives that begin and end here

void CollectiveOutcomes::OnFirstPart(MatchedOperation* operation) {
  const auto early = early_verdicts_.find(operation->sequence);
  if (early == early_verdicts_.end()) return;
  operation->verdict = early->second;
  operation->network.told = true;
  early_verdicts_.erase(early);
}

void CollectiveOutcomes::RemoveRunning(MatchedOperation* operation) {
  running_.Take(operation->sequence);
  if (operation->sequence < ends_from_ || !operation->verdict.ok()) return;
  operation->verdict = ends_why_;
  operation->network.told = true;
}

// While it is held the engine looks for late ranks.
void CollectiveOutcomes::Hold(MatchedOperation* operation, Held why) {
  held_[why].MakeRoom();
  held_[why].Add(operation);
  operation->waiting = WaitingHold(*waiting_);
}

// Returns the held collective of this number; nullptr if it is not held.
MatchedOperation* CollectiveOutcomes::FindHeld(uint64_t sequence) const {
  for (const OperationsBySequence& held : held_) {
    if (MatchedOperation* const operation = held.Find(sequence)) return operation;
  }
  return nullptr;
}

// Removes and returns the held collective of this number; nullptr if it is not held.
MatchedOperation* CollectiveOutcomes::TakeHeld(uint64_t sequence) {
  for (OperationsBySequence& held : held_) {
    if (MatchedOperation* const operation = held.Take(sequence)) return operation;
  }
  return nullptr;
}

void CollectiveOutcomes::EndHere(MatchedOperation* operation) {
  operation->network.done_here = true;
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  Hold(operation, descriptor.count > 0 ? kDone : kNoElements);
  if (descriptor.count > 0) return;
  // A collective without elements ends when it begins.
  operation->started_ns = MonotonicNanoseconds();
  group_->NoteBegun({operation->sequence, RequestDigest(descriptor)}, true);
  TellIfWanted(operation->sequence);
}

// ---------------------------------------------------------------------------------------------
// What the home is told, and says

ProgressMessage CollectiveOutcomes::ProgressOf(uint64_t sequence) const {
  ProgressMessage progress{.communicator = group_->roster().key, .sequence = sequence};
  if (const ProgressMessage* const ended = history_.Find(sequence)) return *ended;
  const auto describe = [&](const MatchedOperation& operation, HostProgress state) {
    progress.state = state;
    for (const PostedOperation* part : operation.parts) {
      if (part != nullptr && progress.requests.empty()) {
        progress.requests.push_back(RequestFrom(*part));
      }
    }
  };
  if (const MatchedOperation* const running = running_.Find(sequence)) {
    describe(*running, HostProgress::kRunning);
  }
  if (const MatchedOperation* const held = FindHeld(sequence)) {
    const bool done = held->network.done_here;
    describe(*held, done ? HostProgress::kRunning : HostProgress::kFailed);
    if (!done) {
      progress.status = RemoteError("the ranks of another host cannot be reached during {}",
                                    NameOf(held->parts.front()->descriptor, 0));
    }
  }
  if (progress.state != HostProgress::kWaiting) return progress;
  if (sequence < communicator_->window().start()) {
    progress.state = HostProgress::kDone;  // long ago
    return progress;
  }
  const MatchedOperation* const waiting = communicator_->window().Find(sequence);
  if (waiting != nullptr) describe(*waiting, HostProgress::kWaiting);
  ListAbsent(&progress, waiting);
  return progress;
}

// Lists the ranks here that have not posted the collective, or whose streams have not come to it.
void CollectiveOutcomes::ListAbsent(ProgressMessage* progress,
                                    const MatchedOperation* waiting) const {
  // Behind earlier collectives of the communicator a rank is where it should be: these report for
  // themselves whom they wait for.
  const bool in_turn = progress->sequence > communicator_->window().start() ||
                       communicator_->executing_here() || !running_.empty();
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (communicator_->IsRemote(rank) || communicator_->HasLeft(rank)) continue;
    const PostedOperation* const part =
        waiting == nullptr ? nullptr : communicator_->PartOf(*waiting, rank);
    if (part == nullptr) {
      progress->missing.push_back(rank);
    } else if (!part->ready && !in_turn) {
      progress->queued.push_back(rank);
    }
  }
}

void CollectiveOutcomes::TellProgress(uint64_t sequence) {
  const MatchedOperation* const running = running_.Find(sequence);
  if (running != nullptr && !running->network.execution->status().ok()) {
    wanted_.insert(sequence);  // how it ends is told in a moment
    return;
  }
  const ProgressMessage progress = ProgressOf(sequence);
  if (progress.state == HostProgress::kDone || progress.state == HostProgress::kFailed) {
    wanted_.erase(sequence);
  } else {
    Want(sequence);
  }
  group_->TellHome(progress);
}

// Notes how an operation has ended here, for the home to ask, and tells the home if it has asked or
// the end is a failure that it does not know.
void CollectiveOutcomes::NoteEnd(const MatchedOperation& operation, const Status& outcome) {
  const PostedOperation& first = *operation.parts.front();
  if (IsPointToPoint(first.descriptor.collective)) return;
  ProgressMessage end{.communicator = group_->roster().key, .sequence = operation.sequence};
  end.state = outcome.ok() ? HostProgress::kDone : HostProgress::kFailed;
  end.requests.push_back(RequestFrom(first));
  const bool news = !outcome.ok() && !operation.network.told;
  if (news) {
    // Lists all ranks of this host, which may disagree with each other; if there are many, only
    // those that differ from the first.
    const bool many = operation.parts.size() > kMostNamedRanks;
    for (const PostedOperation* part : operation.parts) {
      if (part == &first || end.requests.size() >= kMostNamedRanks) continue;
      if (many && Agree(first.descriptor, part->descriptor)) continue;
      end.requests.push_back(RequestFrom(*part));
    }
    end.status = outcome;
  }
  history_.Add(std::move(end));
  const bool tell = news || wanted_.contains(operation.sequence);
  if (tell && communicator_->state() == Communicator::State::kReady)
    TellProgress(operation.sequence);
}

void CollectiveOutcomes::OnVerdict(uint64_t sequence, const Status& verdict) {
  if (communicator_->state() != Communicator::State::kReady || verdict.ok()) return;
  if (verdict.code() == Code::kInvalidUsage) communicator_->NoteDisagreement(sequence, verdict);
  group_->Forget(group_->CollectiveNumber(sequence));
  if (MatchedOperation* const running = running_.Find(sequence)) {
    running->verdict = verdict;
    running->network.told = true;
    return running->network.execution->Cancel(verdict);
  }
  if (MatchedOperation* const held = TakeHeld(sequence)) {
    held->network.told = true;
    return communicator_->Settle(held, verdict);
  }
  if (sequence < communicator_->window().start()) {
    // The ranks were told that the collective went well. That stays true if another host has
    // failed, but not if the ranks did not ask for the same.
    if (verdict.code() == Code::kInvalidUsage && history_.EndedWell(sequence))
      communicator_->Revoke(verdict);
    return;
  }
  if (MatchedOperation* const waiting = communicator_->window().Find(sequence)) {
    waiting->verdict = verdict;
    waiting->network.told = true;
    return communicator_->LaunchReady();
  }
  if (early_verdicts_.size() >= kMostKept) {
    return communicator_->Break(TooFarApart());
  }
  early_verdicts_[sequence] = verdict;
}

// ---------------------------------------------------------------------------------------------
// Ranks that are late

void CollectiveOutcomes::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  if (communicator_->state() != Communicator::State::kReady) return;
  int told = 0;
  const auto tell_slow = [&](MatchedOperation* operation) {
    if (told < kSlowToldAtOnce && TellSlow(operation, now_ns)) ++told;
  };
  running_.LookAtSome(kLookedAt, [&](MatchedOperation* operation) {
    ReportFilling(operation, now_ns, late_after_ns);
    tell_slow(operation);
  });
  for (OperationsBySequence& held : held_) held.LookAtSome(kLookedAt, tell_slow);
}

// Reports ranks that have posted a collective and do not get on with copying their data for it. All
// other ranks wait, on all hosts, and the home tells them.
void CollectiveOutcomes::ReportFilling(MatchedOperation* operation, uint64_t now_ns,
                                       uint64_t late_after_ns) {
  if (operation->feed.empty()) return;
  const uint64_t age = now_ns - std::min(now_ns, operation->started_ns);
  if (age < late_after_ns || now_ns < operation->next_report_ns) return;
  const std::vector<int> filling = operation->feed.Filling();
  if (filling.empty()) return;
  operation->next_report_ns = now_ns + age;
  const std::string notice =
      WaitNotice(*operation->parts.front(), age, "the data of " + RankList(filling));
  group_->TellHome(LateMessage{group_->roster().key, operation->sequence, notice, filling});
}

// Tells the home, once, of a collective that takes long. Returns whether it did.
bool CollectiveOutcomes::TellSlow(MatchedOperation* operation, uint64_t now_ns) {
  NetworkRun& run = operation->network;
  if (run.reported || now_ns <= operation->started_ns + kSlowNanoseconds) return false;
  const bool failed = run.execution != nullptr && !run.execution->status().ok();
  if (failed) return false;  // the home knows of it
  run.reported = true;
  Want(operation->sequence);
  group_->TellHome(ProgressMessage{.communicator = group_->roster().key,
                                   .sequence = operation->sequence,
                                   .state = HostProgress::kRunning,
                                   .requests = {RequestFrom(*operation->parts.front())}});
  return true;
}

void CollectiveOutcomes::AddWaiting(uint64_t now_ns, WaitingOperations* waiting) const {
  const auto add = [&](const MatchedOperation* operation) {
    if (operation->network.late_ranks.empty() || !waiting->MayList()) return;
    const PostedOperation& first = *operation->parts.front();
    waiting->listed.push_back({NameOf(first.descriptor, first.member->rank),
                               AgeInSeconds(operation->first_arrival_ns, now_ns),
                               operation->network.late_ranks});
  };
  running_.ForFirst(kLookedAt, add);
  for (const OperationsBySequence& held : held_) held.ForFirst(kLookedAt, add);
}

// Of one that is held the first part waits for the word of other hosts.
void CollectiveOutcomes::ListUnderWay(uint64_t now_ns, uint64_t least_ns,
                                      CommunicatorWaits* waits) const {
  size_t listed = 0;
  const auto add = [&](const MatchedOperation* operation) {
    const uint64_t age = now_ns - std::min(now_ns, operation->started_ns);
    if (age < least_ns || ++listed > kMostListed || waits->full()) return;
    CommunicatorWait wait = UnderWay(*operation, operation->started_ns);
    const NetworkRun& run = operation->network;
    if (run.execution != nullptr && !run.done_here) {
      wait.progress += run.execution->slices_left();
      for (const int host : run.execution->AwaitedHosts()) {
        group_->AddRanksOf(host, CommunicatorWait::kMostRanks, &wait.senders);
      }
      wait.usual_seconds = group_->plans().UsualSeconds(operation->parts.front()->descriptor);
    }
    waits->listed.push_back(std::move(wait));
  };
  running_.ForFirst(kMostListed, add);
  for (const OperationsBySequence& held : held_) held.ForFirst(kMostListed, add);
}

void CollectiveOutcomes::NotifyWaiting(uint64_t sequence, const std::string& notice) {
  const MatchedOperation* operation = running_.Find(sequence);
  if (operation == nullptr) operation = FindHeld(sequence);
  if (operation == nullptr) operation = communicator_->window().Find(sequence);
  if (operation != nullptr) communicator_->Notify(operation->parts, notice);
}

// The home is told how this collective ends.
void CollectiveOutcomes::Want(uint64_t sequence) {
  wanted_.insert(sequence);
  if (wanted_.size() <= kMostKept) return;
  communicator_->CallSoon([communicator = communicator_] { communicator->Break(TooFarApart()); });
}

void CollectiveOutcomes::OnLate(const LateMessage& late) {
  MatchedOperation* operation = running_.Find(late.sequence);
  if (operation == nullptr) operation = FindHeld(late.sequence);
  if (operation == nullptr) {
    communicator_->observers().Tell(&CommunicatorObserver::OnLate, *communicator_, late.notice);
    return;
  }
  operation->network.late_ranks = late.missing;
  communicator_->Notify(operation->parts, late.notice);
}

}  // namespace harmonaize::daemon
