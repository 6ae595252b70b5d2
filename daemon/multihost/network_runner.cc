#include "daemon/multihost/network_runner.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/this_daemon.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/late_reporter.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/sharing/start_gate.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// An operation that is under way for longer than this is told to the home, once.
constexpr uint64_t kSlowNanoseconds = 100'000'000;

RankRequest RequestFrom(const PostedOperation& part) {
  const OperationDescriptor& descriptor = part.descriptor;
  return {.rank = part.member->rank,
          .collective = descriptor.collective,
          .count = descriptor.count,
          .type = descriptor.type,
          .op = descriptor.op,
          .root = descriptor.root};
}

/// Whether the operation is a send or a receive whose peer is on another host.
bool IsTransfer(const MatchedOperation& operation) {
  return operation.parts.front()->crosses_hosts;
}

}  // namespace

NetworkRunner::NetworkRunner(const HostServices& services, Communicator* communicator,
                             Roster roster)
    : services_(services),
      communicator_(communicator),
      group_(services, communicator, this, std::move(roster)),
      pairs_(communicator, &group_, this) {}

// ---------------------------------------------------------------------------------------------
// Collectives

void NetworkRunner::OnFirstPart(MatchedOperation* operation) {
  const auto early = early_verdicts_.find(operation->sequence);
  if (early == early_verdicts_.end()) return;
  operation->verdict = early->second;
  operation->network.told = true;
  early_verdicts_.erase(early);
}

// An operation that may begin has its plan, or needs none.
bool NetworkRunner::MayLaunch(MatchedOperation* operation) {
  if (!services_.start_gate->MayBegin(*communicator_)) return false;
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  if (!operation->verdict.ok() || descriptor.count == 0) return true;
  if (!communicator_->CheckAgreement(*operation).ok()) return true;
  Result<HostPlan*> plan = group_.plans().PlanFor(descriptor);
  if (!plan.ok()) {
    operation->verdict = plan.status();
    return true;
  }
  operation->network.plan = *plan;
  return operation->network.plan != nullptr;
}

void NetworkRunner::Launch(MatchedOperation* operation) {
  if (operation->parts.front()->descriptor.count == 0) return EndHere(operation);
  const Status started = Start(operation);
  if (started.ok()) return;
  NoteEnd(*operation, started);
  communicator_->FailMatched(operation, started);
}

Status NetworkRunner::Start(MatchedOperation* operation) {
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  const auto all = static_cast<size_t>(communicator_->ranks());
  operation->inputs.assign(all, Buffer{});
  operation->outputs.assign(all, Buffer{});
  operation->scalars.assign(all, 0);
  for (const PostedOperation* part : operation->parts) {
    const auto rank = static_cast<size_t>(part->member->rank);
    operation->inputs[rank] = part->send;
    operation->outputs[rank] = part->receive;
    operation->scalars[rank] = part->descriptor.scalar;
  }
  operation->network.number = group_.CollectiveNumber(operation->sequence);
  NetworkBinding binding;
  binding.type = descriptor.type;
  binding.op = descriptor.op;
  binding.count = descriptor.count;
  binding.divisor = static_cast<uint64_t>(communicator_->ranks());
  binding.check = RequestDigest(descriptor);
  operation->network.feed.Assign(operation->parts);
  if (!operation->network.feed.empty()) binding.feed = &operation->network.feed;
  HZ_RETURN_IF_ERROR(services_.network->Start(operation, binding));
  NoteStarted(operation);
  if (HasRoot(descriptor.collective)) {
    group_.NoteBegun({operation->sequence, binding.check}, false);
  } else {
    group_.NoteOther(operation->sequence);
  }
  if (wanted_.contains(operation->sequence)) TellProgress(operation->sequence);
  return Status::Ok();
}

void NetworkRunner::NoteStarted(MatchedOperation* operation) {
  running_.Add(operation);
  group_.gate()->Begin(operation->network.started_ns);
}

// The network lets go of it.
void NetworkRunner::EndNetwork(MatchedOperation* operation) {
  running_.Remove(operation);
  group_.gate()->End(MonotonicNanoseconds());
  services_.start_gate->NoteEnd(*communicator_);
  operation->network.plan->GiveBack(operation->network.execution);
}

void NetworkRunner::OnNetworkDone(MatchedOperation* operation) {
  if (IsTransfer(*operation)) return pairs_.OnExecuted(operation);
  EndNetwork(operation);
  const Status& ended = operation->network.execution->status();
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  // First, also where the operation was done when the verdict came: it comes once.
  if (!operation->verdict.ok()) {
    communicator_->LoseRanksWithoutMemory(*operation);
    return communicator_->Settle(operation, operation->verdict);
  }
  if (ended.ok()) {
    const uint64_t took = MonotonicNanoseconds() - operation->network.started_ns;
    group_.plans().CountOperation(descriptor, static_cast<double>(took) * 1e-9);
    const Status outcome = communicator_->Judge(*operation, ended);
    const bool waits = HasRoot(descriptor.collective) && !group_.MayEnd();
    if (waits && outcome.ok() && communicator_->state() == Communicator::State::kReady)
      return EndHere(operation);
    return communicator_->Settle(operation, outcome);
  }
  if (communicator_->state() != Communicator::State::kReady)
    return communicator_->Settle(operation, communicator_->failure());
  // The cause is elsewhere, and the home finds out: ranks that disagree, or a host that is lost.
  const LogFor log_for(communicator_->tenant().identity);
  Log(LogLevel::kWarning, kLogCollective, "communicator {} '{}': {} failed here: {}",
      communicator_->id(), communicator_->name(),
      NameOf(descriptor, operation->parts.front()->member->rank), ended.message());
  Hold(operation);
  TellProgress(operation->sequence);
}

// Until the home says how it ends; the engine then looks for late ranks.
void NetworkRunner::Hold(MatchedOperation* operation) {
  held_.push_back(operation);
  operation->waiting = WaitingHold(*services_.waiting);
}

// The collective that runs; nullptr if it does not.
MatchedOperation* NetworkRunner::FindRunning(uint64_t sequence) const {
  for (MatchedOperation* operation : running_) {
    if (operation->sequence == sequence && !IsTransfer(*operation)) return operation;
  }
  return nullptr;
}

// Removes and returns the collective that is held; nullptr if it is not.
MatchedOperation* NetworkRunner::TakeHeld(uint64_t sequence) {
  const auto held = std::find_if(
      held_.begin(), held_.end(),
      [sequence](const MatchedOperation* operation) { return operation->sequence == sequence; });
  if (held == held_.end()) return nullptr;
  MatchedOperation* const operation = *held;
  held_.erase(held);
  return operation;
}

// It is done here. It has succeeded when all are known to be at the same, or, if there was
// something to do, at enough of what came before.
void NetworkRunner::EndHere(MatchedOperation* operation) {
  operation->network.done_here = true;
  Hold(operation);
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  if (descriptor.count > 0) return;
  // What began it has ended it.
  operation->network.started_ns = MonotonicNanoseconds();
  group_.NoteBegun({operation->sequence, RequestDigest(descriptor)}, true);
  if (wanted_.contains(operation->sequence)) TellProgress(operation->sequence);
}

void NetworkRunner::OnAgreed(uint64_t sequence) {
  group_.OnAgreed(sequence);
  std::vector<MatchedOperation*> done;
  std::erase_if(held_, [&](MatchedOperation* operation) {
    const bool may_end = operation->parts.front()->descriptor.count > 0 && group_.MayEnd();
    if (!operation->network.done_here || (operation->sequence > sequence && !may_end)) return false;
    done.push_back(operation);
    return true;
  });
  for (MatchedOperation* operation : done) communicator_->Settle(operation, Status::Ok());
}

// ---------------------------------------------------------------------------------------------
// Sends and receives

Result<MatchedOperation*> NetworkRunner::StartTransfer(PostedOperation* part, HostPlan* plan,
                                                       uint64_t number) {
  MatchedOperation* const operation = communicator_->NewOperation(1);
  if (operation == nullptr) return communicator_->failure();
  operation->parts[0] = part;
  operation->network.plan = plan;
  operation->network.number = number;
  operation->inputs = {part->send};
  operation->outputs = {part->receive};
  operation->scalars = {0};
  NetworkBinding binding;
  // In bytes: both sides must cut it alike, and may differ in type.
  binding.type = DataType::kInt8;
  binding.count = BytesOf(part->descriptor);
  const Status started = services_.network->Start(operation, binding);
  if (!started.ok()) {
    communicator_->GiveBack(operation);
    return started;
  }
  NoteStarted(operation);
  return operation;
}

void NetworkRunner::CancelTransfer(MatchedOperation* operation, const Status& why) {
  operation->verdict = why;
  operation->network.execution->Cancel(why);
}

Status NetworkRunner::EndTransfer(MatchedOperation* operation) {
  EndNetwork(operation);
  const Status ended = operation->network.execution->status();
  Status outcome;
  if (!operation->verdict.ok()) {
    outcome = operation->verdict;
    communicator_->LoseRanksWithoutMemory(*operation);
  } else if (ended.ok()) {
    outcome = communicator_->Judge(*operation, ended);
  } else {
    const LogFor log_for(communicator_->tenant().identity);
    Log(LogLevel::kWarning, kLogPointToPoint, "communicator {} '{}': a transfer failed: {}",
        communicator_->id(), communicator_->name(), ended.message());
    outcome = RemoteError("the connection to rank {} was lost",
                          operation->parts.front()->descriptor.root);
  }
  if (outcome.ok() && communicator_->state() == Communicator::State::kReady)
    communicator_->Count(*operation);
  communicator_->GiveBack(operation);
  return outcome;
}

// ---------------------------------------------------------------------------------------------
// What is said of the communicator

void NetworkRunner::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  const LogFor log_for(communicator_->tenant().identity);
  if (const auto* broken = message.As<BrokenMessage>()) OnBroken(*broken);
  if (const auto* closed = message.As<ClosedMessage>()) {
    // The peer has begun collectives that are not begun here any more, or will soon not be: the
    // news of the end take another way.
    leftovers_.Note(peer, closed->collectives);
    return DropLeftovers();
  }
  if (communicator_->state() != Communicator::State::kReady) {
    return OnMessageAfterEnd(peer, message);
  }
  if (OnMessageOfPair(peer, message)) return;
  if (OnMessageAtHome(peer, message)) return;
  if (peer == group_.roster().home) OnMessageOfHome(message);
}

// Of a communicator that has ended only who leaves matters, and what is still coming.
void NetworkRunner::OnMessageAfterEnd(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* left = message.As<LeftMessage>()) OnRankLeft(left->rank, left->sequence);
  if (const auto* offer = message.As<OfferMessage>()) {
    services_.plans.cluster->transport().Cancel(
        peer, group_.PairNumber(offer->from, offer->to, offer->number));
  }
}

// Messages about sends and receives go from host to host.
bool NetworkRunner::OnMessageOfPair(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* offer = message.As<OfferMessage>()) {
    if (IsFrom(peer, offer->from, offer->to)) pairs_.OnOffer(*offer);
    return true;
  }
  if (const auto* answer = message.As<AnswerMessage>()) {
    if (IsFrom(peer, answer->to, answer->from)) pairs_.OnAnswer(*answer);
    return true;
  }
  return false;
}

// What hosts tell the home, which passes some of it on.
bool NetworkRunner::OnMessageAtHome(transport::PeerId peer, const ClusterMessage& message) {
  const Roster& roster = group_.roster();
  const int host = peer == kThisDaemon ? roster.self : roster.HostOf(peer);
  if (const auto* left = message.As<LeftMessage>()) {
    if (is_home()) group_.TellHosts(message, host);
    OnRankLeft(left->rank, left->sequence);
    return true;
  }
  if (!is_home() || host < 0) return false;
  if (const auto* progress = message.As<ProgressMessage>()) {
    group_.OnProgress(host, *progress);
  } else if (const auto* begun = message.As<BegunMessage>()) {
    group_.OnBegun(host, *begun);
  } else if (const auto* late = message.As<LateMessage>()) {
    group_.TellHosts(message);
    OnLate(*late);
  } else if (const auto* promise = message.As<PromiseMessage>()) {
    group_.plans().switching().OnPromise(host, *promise);
  } else if (const auto* question = message.As<AskPlanMessage>()) {
    group_.plans().OnAskPlan(peer, *question);
  } else {
    return false;
  }
  return true;
}

void NetworkRunner::OnMessageOfHome(const ClusterMessage& message) {
  PlanTable& plans = group_.plans();
  if (const auto* plan = message.As<PlanMessage>()) return plans.OnPlan(plan->plan);
  if (const auto* proposal = message.As<ProposeMessage>()) {
    return plans.switching().OnPropose(*proposal);
  }
  if (const auto* settlement = message.As<SettleMessage>()) {
    return plans.switching().OnSettle(*settlement);
  }
  if (const auto* links = message.As<LinkRatesMessage>()) return plans.OnRates(links->rates);
  if (const auto* asked = message.As<AskProgressMessage>()) return TellProgress(asked->sequence);
  if (const auto* verdict = message.As<VerdictMessage>()) {
    return OnVerdict(verdict->sequence, verdict->status);
  }
  if (const auto* agreed = message.As<AgreedMessage>()) return OnAgreed(agreed->sequence);
  if (const auto* late = message.As<LateMessage>()) OnLate(*late);
}

// Whether a message of a pair makes sense: from a rank there, to one here.
bool NetworkRunner::IsFrom(transport::PeerId peer, int there, int here) {
  const bool exist =
      there >= 0 && there < communicator_->ranks() && here >= 0 && here < communicator_->ranks();
  if (!exist || !IsRemote(there) || IsRemote(here)) return false;
  return group_.NotePeer(there, peer);
}

void NetworkRunner::FailFrom(int rank, uint64_t after, const Status& why) {
  EndFrom(after, why);
  pairs_.OnOwnRankLeft(rank, why);
}

void NetworkRunner::TellLeft(int rank, uint64_t after) {
  group_.TellBegun();
  group_.plans().switching().OnRankLeft();
  group_.TellLeft(LeftMessage{group_.roster().key, rank, after});
}

void NetworkRunner::FailAll(const Status& why) {
  // What the network holds ends soon, and OnNetworkDone then tells of the failure.
  for (MatchedOperation* operation : running_) operation->network.execution->Cancel(why);
  for (MatchedOperation* operation : std::exchange(held_, {})) {
    communicator_->FailMatched(operation, why);
  }
  pairs_.FailAll(why);
}

void NetworkRunner::OnBroken(const BrokenMessage& broken) {
  const Status& why = broken.status;
  if (why.ok()) return;
  if (broken.revoked) {
    communicator_->Revoke(why);
  } else {
    communicator_->Break(why);
  }
}

// The home tells all; the others tell the home. Where that is lost those that were reached learn
// the reason before they hear of ranks that leave for it.
void NetworkRunner::TellEnd(bool revoked, const Status& why) {
  const BrokenMessage broken{group_.roster().key, revoked, why};
  if (group_.is_home()) {
    group_.TellHosts(broken);
  } else if (services_.plans.cluster->Linked(group_.roster().home)) {
    group_.TellHome(broken);
  } else {
    group_.TellReached(broken);
  }
  group_.EndFrom(0);
  group_.TellReached(ClosedMessage{group_.roster().key, communicator_->window().start()});
  DropLeftovers();
}

// What others sent of collectives that never begin here.
void NetworkRunner::DropLeftovers() {
  const uint64_t begun = communicator_->window().start();
  uint64_t first = begun;
  if (communicator_->state() == Communicator::State::kReady) {
    const uint64_t left = communicator_->first_left();
    if (left == Communicator::kStays) return;
    first = std::max(left, begun);
  }
  if (!communicator_->has_ranks_here()) return;
  leftovers_.Drop(&services_.plans.cluster->transport(), group_.roster().key, first);
}

void NetworkRunner::OnRankLeft(int rank, uint64_t sequence) {
  if (rank < 0 || rank >= communicator_->ranks() || !IsRemote(rank) || communicator_->HasLeft(rank))
    return;
  communicator_->NoteLeft(rank, sequence);
  group_.plans().switching().OnRankLeft();
  services_.ranks->OnRankLeft(*communicator_, rank);
  if (communicator_->state() != Communicator::State::kReady) return;
  const Status why = RemoteError("rank {} has left the communicator", rank);
  communicator_->FailWindowFrom(sequence, why);
  EndFrom(sequence, why);
  pairs_.OnPeerRankLeft(rank, why);
}

// Collectives from there on cannot be carried out. Those that others have begun here end, and what
// was sent of them is dropped at the other hosts.
void NetworkRunner::EndFrom(uint64_t sequence, const Status& why) {
  for (MatchedOperation* operation : running_) {
    if (IsTransfer(*operation) || operation->sequence < sequence) continue;
    operation->verdict = why;
    operation->network.told = true;
    operation->network.execution->Cancel(why);
  }
  const std::vector<MatchedOperation*> held = std::exchange(held_, {});
  for (MatchedOperation* operation : held) {
    if (operation->sequence < sequence) {
      held_.push_back(operation);
      continue;
    }
    operation->network.told = true;
    communicator_->Settle(operation, why);
  }
  wanted_.erase(wanted_.lower_bound(sequence), wanted_.end());
  early_verdicts_.erase(early_verdicts_.lower_bound(sequence), early_verdicts_.end());
  group_.EndFrom(sequence);
  if (communicator_->window().start() > sequence) {
    group_.TellReached(ClosedMessage{group_.roster().key, communicator_->window().start()});
  }
  DropLeftovers();
}

void NetworkRunner::OnPeerLost(transport::PeerId peer) {
  const Roster& roster = group_.roster();
  const int host = roster.HostOf(peer);
  if (host >= 0) LoseHost(host);
  if (peer == roster.home) {
    communicator_->Break(
        RemoteError("the communicator is lost: the daemon that looked after it does not answer"));
  }
}

void NetworkRunner::LoseHost(int host) {
  std::vector<int> lost;
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (group_.roster().host_of_rank[static_cast<size_t>(rank)] != host ||
        communicator_->HasLeft(rank))
      continue;
    lost.push_back(rank);
  }
  for (const int rank : lost) communicator_->NoteLeft(rank, communicator_->window().start());
  if (lost.empty()) return;
  communicator_->Break(RemoteError("{} {} lost: their host's daemon does not answer",
                                   RankList(lost), lost.size() == 1 ? "is" : "are"));
  for (const int rank : lost) services_.ranks->OnRankLeft(*communicator_, rank);
}

// ---------------------------------------------------------------------------------------------
// Agreement

ProgressMessage NetworkRunner::ProgressOf(uint64_t sequence) const {
  ProgressMessage progress{.communicator = group_.roster().key, .sequence = sequence};
  if (const ProgressMessage* const ended = history_.Find(sequence)) return *ended;
  const auto describe = [&](const MatchedOperation& operation, HostProgress state) {
    progress.state = state;
    for (const PostedOperation* part : operation.parts) {
      if (part != nullptr && progress.requests.empty()) {
        progress.requests.push_back(RequestFrom(*part));
      }
    }
  };
  if (const MatchedOperation* const running = FindRunning(sequence)) {
    describe(*running, HostProgress::kRunning);
  }
  for (const MatchedOperation* operation : held_) {
    if (operation->sequence != sequence) continue;
    describe(*operation,
             operation->network.done_here ? HostProgress::kRunning : HostProgress::kFailed);
    if (operation->network.done_here) continue;
    progress.status = RemoteError("the ranks of another host cannot be reached during {}",
                                  NameOf(operation->parts.front()->descriptor, 0));
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
void NetworkRunner::ListAbsent(ProgressMessage* progress, const MatchedOperation* waiting) const {
  // Behind the communicator's own collectives a rank is where it should be: these tell for
  // themselves whom they wait for.
  const bool in_turn =
      progress->sequence > communicator_->window().start() || communicator_->executing_here() ||
      !std::all_of(running_.begin(), running_.end(),
                   [](const MatchedOperation* operation) { return IsTransfer(*operation); });
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (IsRemote(rank) || communicator_->HasLeft(rank)) continue;
    const PostedOperation* const part =
        waiting == nullptr ? nullptr : communicator_->PartOf(*waiting, rank);
    if (part == nullptr) {
      progress->missing.push_back(rank);
    } else if (!part->ready && !in_turn) {
      progress->queued.push_back(rank);
    }
  }
}

void NetworkRunner::TellProgress(uint64_t sequence) {
  const MatchedOperation* const running = FindRunning(sequence);
  if (running != nullptr && !running->network.execution->status().ok()) {
    wanted_.insert(sequence);  // as what it ends is told in a moment
    return;
  }
  const ProgressMessage progress = ProgressOf(sequence);
  if (progress.state == HostProgress::kDone || progress.state == HostProgress::kFailed) {
    wanted_.erase(sequence);
  } else {
    wanted_.insert(sequence);
  }
  group_.TellHome(progress);
}

// How an operation has ended here, for the home to ask.
void NetworkRunner::NoteEnd(const MatchedOperation& operation, const Status& outcome) {
  const PostedOperation& first = *operation.parts.front();
  if (IsPointToPoint(first.descriptor.collective)) return;
  ProgressMessage end{.communicator = group_.roster().key, .sequence = operation.sequence};
  end.state = outcome.ok() ? HostProgress::kDone : HostProgress::kFailed;
  end.requests.push_back(RequestFrom(first));
  const bool news = !outcome.ok() && !operation.network.told;
  if (news) {
    // All of this host's ranks, who may disagree among each other; of many, those that differ.
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

// ---------------------------------------------------------------------------------------------
// Ranks that are late

void NetworkRunner::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  ReportFilling(now_ns, late_after_ns);
  TellSlow(now_ns);
  group_.ReportLate(now_ns, late_after_ns);
  if (PlanControl* const control = group_.plans().control()) control->Tick(now_ns);
  if (group_.gate()->waits()) communicator_->LaunchReady();
}

// Ranks that have posted a collective and do not get on with copying what they have for it. All
// others wait, on all hosts, and the home tells them.
void NetworkRunner::ReportFilling(uint64_t now_ns, uint64_t late_after_ns) {
  if (communicator_->state() != Communicator::State::kReady) return;
  for (MatchedOperation* operation : running_) {
    const NetworkRun& run = operation->network;
    if (run.feed.empty()) continue;
    const uint64_t age = now_ns - std::min(now_ns, run.started_ns);
    if (age < late_after_ns || now_ns < operation->next_report_ns) continue;
    const std::vector<int> filling = run.feed.Filling();
    if (filling.empty()) continue;
    operation->next_report_ns = now_ns + age;
    const std::string notice =
        WaitNotice(*operation->parts.front(), age, "the data of " + RankList(filling));
    group_.TellHome(LateMessage{group_.roster().key, operation->sequence, notice, filling});
  }
}

void NetworkRunner::AddWaiting(uint64_t now_ns, WaitingOperations* waiting) const {
  ForEachBegun([&](const MatchedOperation* operation) {
    if (operation->network.late_ranks.empty() || !waiting->MayList()) return;
    const PostedOperation& first = *operation->parts.front();
    waiting->listed.push_back({NameOf(first.descriptor, first.member->rank),
                               AgeInSeconds(operation->first_arrival_ns, now_ns),
                               operation->network.late_ranks});
  });
}

void NetworkRunner::TellSlow(uint64_t now_ns) {
  if (communicator_->state() != Communicator::State::kReady) return;
  ForEachBegun([&](MatchedOperation* operation) {
    const bool collective = !IsPointToPoint(operation->parts.front()->descriptor.collective);
    const bool slow = collective && !operation->network.reported &&
                      now_ns > operation->network.started_ns + kSlowNanoseconds;
    if (!slow) return;
    operation->network.reported = true;
    TellProgress(operation->sequence);
  });
}

void NetworkRunner::OnVerdict(uint64_t sequence, const Status& verdict) {
  if (communicator_->state() != Communicator::State::kReady || verdict.ok()) return;
  group_.Forget(group_.CollectiveNumber(sequence));
  if (MatchedOperation* const running = FindRunning(sequence)) {
    running->verdict = verdict;
    running->network.told = true;
    return running->network.execution->Cancel(verdict);
  }
  if (MatchedOperation* const held = TakeHeld(sequence)) {
    held->network.told = true;
    return communicator_->Settle(held, verdict);
  }
  if (sequence < communicator_->window().start()) {
    // Ranks were told that all went well. Of what was done at another host that is true; not where
    // they have not been at the same.
    if (verdict.code() == Code::kInvalidUsage && history_.EndedWell(sequence))
      communicator_->Revoke(verdict);
    return;
  }
  if (MatchedOperation* const waiting = communicator_->window().Find(sequence)) {
    waiting->verdict = verdict;
    waiting->network.told = true;
    return communicator_->LaunchReady();
  }
  early_verdicts_[sequence] = verdict;
}

void NetworkRunner::OnLate(const LateMessage& late) {
  bool found = false;
  ForEachBegun([&](MatchedOperation* operation) {
    const bool collective = !IsPointToPoint(operation->parts.front()->descriptor.collective);
    if (found || !collective || operation->sequence != late.sequence) return;
    found = true;
    operation->network.late_ranks = late.missing;
    communicator_->Notify(operation->parts, late.notice);
  });
  if (found) return;
  communicator_->observers().Tell(&CommunicatorObserver::OnLate, *communicator_, late.notice);
}

}  // namespace harmonaize::daemon
