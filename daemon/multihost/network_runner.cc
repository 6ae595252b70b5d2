#include "daemon/multihost/network_runner.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/this_daemon.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/sharing/start_gate.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

NetworkRunner::NetworkRunner(const HostServices& services, Communicator* communicator,
                             Roster roster)
    : services_(services),
      communicator_(communicator),
      group_(services_, communicator, &outcomes_, std::move(roster)),
      pairs_(communicator, &group_, this),
      pipes_(services_, communicator, &group_),
      outcomes_(services.waiting, communicator, &group_) {}

// ---------------------------------------------------------------------------------------------
// Collectives

// An operation that may begin has its plan, or needs none.
bool NetworkRunner::MayLaunch(MatchedOperation* operation) {
  if (sliced_ != nullptr && HasWindows(*operation)) return false;
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
  if (operation->parts.front()->descriptor.count == 0) return outcomes_.EndHere(operation);
  const Status started = Start(operation);
  if (started.ok()) return;
  outcomes_.NoteEnd(*operation, started);
  communicator_->FailMatched(operation, started);
}

Status NetworkRunner::Start(MatchedOperation* operation) {
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  const auto all = static_cast<size_t>(communicator_->ranks());
  operation->inputs.assign(all, MemoryView{});
  operation->outputs.assign(all, MemoryView{});
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
  operation->feed.Assign(operation->parts);
  if (!operation->feed.empty()) binding.feed = &operation->feed;
  outcomes_.MakeRoom();
  HZ_RETURN_IF_ERROR(services_.network->Start(operation, binding));
  outcomes_.AddRunning(operation);
  if (binding.feed != nullptr) sliced_ = operation;
  PayForGrowth(*operation);
  group_.gate()->Begin(operation->started_ns);
  if (HasRoot(descriptor.collective)) {
    group_.NoteBegun({operation->sequence, binding.check}, false);
  } else {
    group_.NoteOther(operation->sequence);
  }
  outcomes_.TellIfWanted(operation->sequence);
  return Status::Ok();
}

// Charges the tenant for what an execution has come to keep. The memory is there already, so a
// tenant that cannot pay loses the communicator, to which it belongs.
void NetworkRunner::PayForGrowth(const MatchedOperation& operation) {
  const int64_t growth = operation.network.plan->TakeGrowth(operation.network.execution);
  if (growth == 0) return;
  const Status paid = communicator_->Pay(growth);
  if (!paid.ok()) group_.BreakSoon(paid);
}

// Takes an operation from the network, which has carried it out.
void NetworkRunner::EndNetwork(MatchedOperation* operation) {
  group_.gate()->End(MonotonicNanoseconds());
  services_.start_gate->NoteEnd(*communicator_);
  PayForGrowth(*operation);
  operation->network.plan->GiveBack(operation->network.execution);
}

void NetworkRunner::OnNetworkDone(MatchedOperation* operation) {
  if (operation->parts.front()->crosses_hosts) return pairs_.OnExecuted(operation);
  outcomes_.RemoveRunning(operation);
  if (operation == sliced_) {
    sliced_ = nullptr;
    communicator_->CallSoon([this] { communicator_->LaunchReady(); });
  }
  EndNetwork(operation);
  const Status& ended = operation->network.execution->status();
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  // A verdict comes first, also if the operation was done when the verdict came, since it comes
  // once.
  if (!operation->verdict.ok()) {
    communicator_->LoseRanksWithoutMemory(*operation);
    return communicator_->Settle(operation, operation->verdict);
  }
  if (ended.ok()) {
    const uint64_t took = MonotonicNanoseconds() - operation->started_ns;
    group_.plans().CountOperation(descriptor, static_cast<double>(took) * 1e-9);
    const Status outcome = communicator_->Judge(*operation, ended);
    const bool waits = HasRoot(descriptor.collective) && !group_.MayEnd();
    if (waits && outcome.ok() && communicator_->state() == Communicator::State::kReady)
      return outcomes_.EndHere(operation);
    return communicator_->Settle(operation, outcome);
  }
  if (communicator_->state() != Communicator::State::kReady)
    return communicator_->Settle(operation, communicator_->failure());
  // The cause is elsewhere, and the home finds out: ranks that disagree, or a host that is lost.
  const LogFor log_for(communicator_->tenant().identity);
  Log(LogLevel::kWarning, kLogCollective, "communicator {} '{}': {} failed here: {}",
      communicator_->id(), communicator_->name(),
      NameOf(descriptor, operation->parts.front()->member->rank), ended.message());
  outcomes_.HoldFailed(operation);
  outcomes_.TellProgress(operation->sequence);
}

// ---------------------------------------------------------------------------------------------
// Sends and receives

Result<MatchedOperation*> NetworkRunner::StartTransfer(PostedOperation* part, HostPlan* plan,
                                                       uint64_t number) {
  MatchedOperation* const operation = communicator_->NewOperation(1, 1);
  if (operation == nullptr) return communicator_->failure();
  operation->parts[0] = part;
  operation->network.plan = plan;
  operation->network.number = number;
  operation->inputs = {part->send};
  operation->outputs = {part->receive};
  operation->scalars = {0};
  NetworkBinding binding;
  // The count is in bytes: both sides must cut the data alike, and may differ in type.
  binding.type = DataType::kInt8;
  binding.count = BytesOf(part->descriptor);
  operation->feed.Assign(operation->parts);
  if (!operation->feed.empty()) binding.feed = &operation->feed;
  transfers_.MakeRoom();
  const Status started = services_.network->Start(operation, binding);
  if (!started.ok()) {
    communicator_->GiveBack(operation);
    return started;
  }
  transfers_.Add(operation);
  PayForGrowth(*operation);
  group_.gate()->Begin(operation->started_ns);
  return operation;
}

void NetworkRunner::CancelTransfer(MatchedOperation* operation, const Status& why) {
  operation->verdict = why;
  operation->network.execution->Cancel(why);
}

Status NetworkRunner::EndTransfer(MatchedOperation* operation) {
  transfers_.Remove(operation);
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
  if (const auto* broken = message.As<BrokenMessage>()) OnBroken(peer, *broken);
  if (const auto* closed = message.As<ClosedMessage>()) {
    // The peer has begun collectives that do not begin here any more, or soon will not: the news of
    // the end takes another way.
    leftovers_.Note(peer, closed->collectives);
    return DropLeftovers();
  }
  if (communicator_->state() != Communicator::State::kReady) {
    return OnMessageAfterEnd(peer, message);
  }
  if (OnMessageOfPair(peer, message) || OnMessageOfPipes(peer, message)) return;
  if (OnMessageAtHome(peer, message)) return;
  if (peer == group_.roster().home) OnMessageOfHome(message);
}

// For a communicator that has ended, only ranks that leave and messages that still come matter.
void NetworkRunner::OnMessageAfterEnd(transport::PeerId peer, const ClusterMessage& message) {
  const auto* const left = message.As<LeftMessage>();
  if (left != nullptr && IsCredible(peer, *left)) OnRankLeft(left->rank, left->sequence);
  if (const auto* offer = message.As<OfferMessage>()) {
    services_.cluster->transport().Cancel(peer,
                                          group_.PairNumber(offer->from, offer->to, offer->number));
  }
  OnMessageOfPipes(peer, message);
}

// Handles messages about pipes, also of a communicator that has ended: they say what was received
// before. Returns false for others.
bool NetworkRunner::OnMessageOfPipes(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* opened = message.As<PipesOpenedMessage>()) {
    if (IsOfPipes(peer, opened->from, opened->to)) pipes_.OnOpened();
    return true;
  }
  if (const auto* closed = message.As<PipesClosedMessage>()) {
    if (IsOfPipes(peer, closed->from, closed->to)) pipes_.OnClosed(*closed);
    return true;
  }
  return false;
}

bool NetworkRunner::IsOfPipes(transport::PeerId peer, int there, int here) {
  return communicator_->ranks() == kRanksWithPipes && IsFrom(peer, there, here);
}

// Handles messages about sends and receives, which go from host to host. Returns false for others.
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

// Handles what hosts tell the home, which passes some of it on. Returns false for other messages.
bool NetworkRunner::OnMessageAtHome(transport::PeerId peer, const ClusterMessage& message) {
  const Roster& roster = group_.roster();
  const int host = roster.HostOf(peer);
  if (const auto* left = message.As<LeftMessage>()) {
    if (!IsCredible(peer, *left)) return true;
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
    outcomes_.OnLate(*late);
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
  if (const auto* asked = message.As<AskProgressMessage>())
    return outcomes_.TellProgress(asked->sequence);
  if (const auto* verdict = message.As<VerdictMessage>()) {
    return outcomes_.OnVerdict(verdict->sequence, verdict->status);
  }
  if (const auto* agreed = message.As<AgreedMessage>()) return outcomes_.OnAgreed(agreed->sequence);
  if (const auto* late = message.As<LateMessage>()) outcomes_.OnLate(*late);
}

// Returns whether a message of a pair makes sense: from the daemon of a rank there, about a rank
// here.
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
  if (communicator_->ranks() == kRanksWithPipes) {
    pipes_.OnOwnRankLeft(RemoteError("rank {} has left the communicator", rank));
  }
  group_.TellBegun();
  group_.plans().switching().OnRankLeft();
  group_.TellLeft(LeftMessage{group_.roster().key, rank, after});
}

void NetworkRunner::FailAll(const Status& why) {
  outcomes_.FailAll(why);
  pairs_.FailAll(why);
  if (communicator_->ranks() == kRanksWithPipes) pipes_.FailAll(why);
}

void NetworkRunner::OnBroken(transport::PeerId peer, const BrokenMessage& broken) {
  const Status& why = broken.status;
  if (why.ok() || !group_.MayBelong(peer)) return;
  if (broken.revoked) {
    communicator_->Revoke(why);
  } else {
    communicator_->Break(why);
  }
}

// The home tells all hosts; the others tell the home. If the home is lost, the daemons that were
// reached learn the reason before they hear of ranks that leave for it.
void NetworkRunner::TellEnd(bool revoked, const Status& why) {
  const BrokenMessage broken{group_.roster().key, revoked, why};
  if (group_.is_home()) {
    group_.TellHosts(broken);
  } else if (services_.cluster->Linked(group_.roster().home)) {
    group_.TellHome(broken);
  } else {
    group_.TellReached(broken);
  }
  group_.EndFrom(0);
  group_.TellReached(ClosedMessage{group_.roster().key, communicator_->window().start()});
  DropLeftovers();
}

// Drops what other hosts sent of collectives that never begin here.
void NetworkRunner::DropLeftovers() {
  const uint64_t begun = communicator_->window().start();
  uint64_t first = begun;
  if (communicator_->state() == Communicator::State::kReady) {
    const uint64_t left = communicator_->first_left();
    if (left == Communicator::kStays) return;
    first = std::max(left, begun);
  }
  if (!communicator_->has_ranks_here()) return;
  leftovers_.Drop(services_.cluster, group_.roster().key, first);
}

// Returns whether a daemon that may know says of a rank that it has left.
bool NetworkRunner::IsCredible(transport::PeerId peer, const LeftMessage& left) const {
  const bool exists = left.rank >= 0 && left.rank < communicator_->ranks();
  return exists && left.sequence != Communicator::kStays && group_.MaySpeakFor(left.rank, peer);
}

void NetworkRunner::OnRankLeft(int rank, uint64_t sequence) {
  if (!IsRemote(rank) || communicator_->HasLeft(rank)) return;
  communicator_->NoteLeft(rank, sequence);
  group_.plans().switching().OnRankLeft();
  services_.ranks->OnRankLeft(*communicator_, rank);
  if (communicator_->state() != Communicator::State::kReady) return;
  const Status why = RemoteError("rank {} has left the communicator", rank);
  communicator_->FailWindowFrom(sequence, why);
  EndFrom(sequence, why);
  pairs_.OnPeerRankLeft(rank);
}

// Ends the collectives from this one on, which cannot be carried out. The other hosts drop what was
// sent of those that have begun here.
void NetworkRunner::EndFrom(uint64_t sequence, const Status& why) {
  outcomes_.EndFrom(sequence, why);
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
  communicator_->LoseRank(RemoteError("{} {} lost: their host's daemon does not answer",
                                      RankList(lost), lost.size() == 1 ? "is" : "are"));
  for (const int rank : lost) services_.ranks->OnRankLeft(*communicator_, rank);
}

void NetworkRunner::OnTermsChanged() {
  group_.plans().OnTermsChanged();
}

// ---------------------------------------------------------------------------------------------
// Ranks that are late

void NetworkRunner::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  outcomes_.ReportLate(now_ns, late_after_ns);
  group_.ReportLate(now_ns, late_after_ns);
  if (PlanControl* const control = group_.plans().control()) control->Tick(now_ns);
  if (group_.gate()->waits()) communicator_->LaunchReady();
}

}  // namespace harmonaize::daemon
