// The part of Communicator that concerns other hosts.

#include <algorithm>
#include <utility>

#include "daemon/cluster/this_daemon.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/multihost/remote_pairs.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/sharing/start_gate.h"
#include "daemon/tenant/finished_parts.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// An operation that is under way for longer than this is told to the home, once.
constexpr uint64_t kSlowNanoseconds = 100'000'000;
/// Of so many that have ended it is remembered how, for the home to ask.
constexpr size_t kRemembered = 256;

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
// Collectives

// Whether the operation can be launched: it has its plan, or needs none.
bool Communicator::Prepare(MatchedOperation* operation) {
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  if (!operation->verdict.ok() || descriptor.count == 0) return true;
  if (!CheckAgreement(*operation).ok()) return true;
  Result<HostPlan*> plan = host_group_->plans().PlanFor(descriptor);
  if (!plan.ok()) {
    operation->verdict = plan.status();
    return true;
  }
  operation->plan = *plan;
  return operation->plan != nullptr;
}

void Communicator::OnPlanReady() {
  LaunchReady();
  remote_pairs_->OnPlanReady();
}

Status Communicator::StartNetwork(MatchedOperation* operation) {
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  const auto all = static_cast<size_t>(ranks());
  operation->inputs.assign(all, Buffer{});
  operation->outputs.assign(all, Buffer{});
  operation->scalars.assign(all, 0);
  for (const PostedOperation* part : operation->parts) {
    const auto rank = static_cast<size_t>(part->member->rank);
    operation->inputs[rank] = part->send;
    operation->outputs[rank] = part->receive;
    operation->scalars[rank] = part->descriptor.scalar;
  }
  operation->number = host_group_->CollectiveNumber(operation->sequence);
  NetworkBinding binding;
  binding.type = descriptor.type;
  binding.op = descriptor.op;
  binding.count = descriptor.count;
  binding.divisor = static_cast<uint64_t>(ranks());
  binding.check = RequestDigest(descriptor);
  operation->feed.Assign(operation->parts);
  if (!operation->feed.empty()) binding.feed = &operation->feed;
  HZ_RETURN_IF_ERROR(hosts_.network->Start(operation, binding));
  NoteStarted(operation);
  if (HasRoot(descriptor.collective)) {
    host_group_->NoteBegun({operation->sequence, binding.check}, false);
  } else {
    host_group_->NoteOther(operation->sequence);
  }
  if (wanted_.contains(operation->sequence)) TellProgress(operation->sequence);
  return Status::Ok();
}

void Communicator::NoteStarted(MatchedOperation* operation) {
  in_flight_.Add(operation);
  host_group_->gate()->Begin(operation->started_ns);
}

// The network lets go of it.
void Communicator::EndNetwork(MatchedOperation* operation) {
  in_flight_.Remove(operation);
  host_group_->gate()->End(MonotonicNanoseconds());
  hosts_.start_gate->NoteEnd(*this);
  operation->plan->GiveBack(operation->network);
}

void Communicator::OnNetworkDone(MatchedOperation* operation) {
  if (operation->parts.front()->crosses_hosts) return remote_pairs_->OnExecuted(operation);
  EndNetwork(operation);
  const Status& ended = operation->network->status();
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  // First, also where the operation was done when the verdict came: it comes once.
  if (!operation->verdict.ok()) {
    LoseRanksWithoutMemory(*operation);
    return Settle(operation, operation->verdict);
  }
  if (ended.ok()) {
    const uint64_t took = MonotonicNanoseconds() - operation->started_ns;
    host_group_->plans().CountOperation(descriptor, static_cast<double>(took) * 1e-9);
    const Status outcome = Judge(*operation, ended);
    const bool waits = HasRoot(descriptor.collective) && !host_group_->MayEnd();
    if (waits && outcome.ok() && state_ == State::kReady) return EndHere(operation);
    return Settle(operation, outcome);
  }
  if (state_ != State::kReady) return Settle(operation, failure_);
  // The cause is elsewhere, and the home finds out: ranks that disagree, or a host that is lost.
  const LogFor log_for(tenant_->identity);
  Log(LogLevel::kWarning, kLogCollective, "communicator {} '{}': {} failed here: {}", id_, name_,
      NameOf(descriptor, operation->parts.front()->member->rank), ended.message());
  Hold(operation);
  TellProgress(operation->sequence);
}

// Until the home says how it ends; the engine then looks for late ranks.
void Communicator::Hold(MatchedOperation* operation) {
  held_.push_back(operation);
  operation->waiting = WaitingHold(*services_.waiting);
}

// The one that is held, no longer; nullptr if it is not.
MatchedOperation* Communicator::TakeHeld(uint64_t sequence) {
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
void Communicator::EndHere(MatchedOperation* operation) {
  operation->done_here = true;
  Hold(operation);
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  if (descriptor.count > 0) return;
  // What began it has ended it.
  operation->started_ns = MonotonicNanoseconds();
  host_group_->NoteBegun({operation->sequence, RequestDigest(descriptor)}, true);
  if (wanted_.contains(operation->sequence)) TellProgress(operation->sequence);
}

void Communicator::OnAgreed(uint64_t sequence) {
  host_group_->OnAgreed(sequence);
  std::vector<MatchedOperation*> done;
  std::erase_if(held_, [&](MatchedOperation* operation) {
    const bool may_end = operation->parts.front()->descriptor.count > 0 && host_group_->MayEnd();
    if (!operation->done_here || (operation->sequence > sequence && !may_end)) return false;
    done.push_back(operation);
    return true;
  });
  for (MatchedOperation* operation : done) Settle(operation, Status::Ok());
}

// ---------------------------------------------------------------------------------------------
// Sends and receives

Result<MatchedOperation*> Communicator::StartTransfer(PostedOperation* part, HostPlan* plan,
                                                      uint64_t number) {
  MatchedOperation* const operation = NewOperation(1);
  if (operation == nullptr) return failure_;
  operation->parts[0] = part;
  operation->plan = plan;
  operation->number = number;
  operation->inputs = {part->send};
  operation->outputs = {part->receive};
  operation->scalars = {0};
  NetworkBinding binding;
  // In bytes: both sides must cut it alike, and may differ in type.
  binding.type = DataType::kInt8;
  binding.count = BytesOf(part->descriptor);
  const Status started = hosts_.network->Start(operation, binding);
  if (!started.ok()) {
    pool_.GiveBack(operation);
    return started;
  }
  NoteStarted(operation);
  return operation;
}

void Communicator::CancelTransfer(MatchedOperation* operation, const Status& why) {
  operation->verdict = why;
  operation->network->Cancel(why);
}

Status Communicator::EndTransfer(MatchedOperation* operation) {
  EndNetwork(operation);
  const Status ended = operation->network->status();
  Status outcome;
  if (!operation->verdict.ok()) {
    outcome = operation->verdict;
    LoseRanksWithoutMemory(*operation);
  } else if (ended.ok()) {
    outcome = Judge(*operation, ended);
  } else {
    const LogFor log_for(tenant_->identity);
    Log(LogLevel::kWarning, kLogPointToPoint, "communicator {} '{}': a transfer failed: {}", id_,
        name_, ended.message());
    outcome = RemoteError("the connection to rank {} was lost",
                          operation->parts.front()->descriptor.root);
  }
  if (outcome.ok() && state_ == State::kReady) Count(*operation);
  pool_.GiveBack(operation);
  return outcome;
}

void Communicator::FinishPart(PostedOperation* part, const Status& outcome) {
  services_.finished->Finish(part, state_ == State::kReady ? outcome : failure_);
}

// ---------------------------------------------------------------------------------------------
// What is said of the communicator

void Communicator::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  const LogFor log_for(tenant_->identity);
  const bool from_home = peer == host_group_->roster().home;
  const int host =
      peer == kThisDaemon ? host_group_->roster().self : host_group_->roster().HostOf(peer);
  if (const auto* broken = message.As<BrokenMessage>()) OnBroken(*broken);
  if (const auto* closed = message.As<ClosedMessage>()) {
    return DropLeftovers(peer, closed->collectives);
  }
  if (state_ != State::kReady) {
    // Of those that have ended only who leaves matters, and what is still coming.
    if (const auto* left = message.As<LeftMessage>()) OnRankLeft(left->rank, left->sequence);
    if (const auto* offer = message.As<OfferMessage>()) {
      hosts_.plans.cluster->transport().Cancel(
          peer, host_group_->PairNumber(offer->from, offer->to, offer->number));
    }
    return;
  }
  if (const auto* offer = message.As<OfferMessage>()) {
    if (IsFrom(peer, offer->from, offer->to)) remote_pairs_->OnOffer(*offer);
    return;
  }
  if (const auto* answer = message.As<AnswerMessage>()) {
    if (IsFrom(peer, answer->to, answer->from)) remote_pairs_->OnAnswer(*answer);
    return;
  }
  if (const auto* left = message.As<LeftMessage>()) {
    if (host_group_->is_home()) host_group_->TellHosts(message, host);
    return OnRankLeft(left->rank, left->sequence);
  }
  if (host_group_->is_home() && host >= 0) {
    if (const auto* progress = message.As<ProgressMessage>()) {
      return host_group_->OnProgress(host, *progress);
    }
    if (const auto* begun = message.As<BegunMessage>()) {
      return host_group_->OnBegun(host, *begun);
    }
    if (const auto* late = message.As<LateMessage>()) {
      host_group_->TellHosts(message);
      return OnLate(*late);
    }
    if (const auto* promise = message.As<PromiseMessage>()) {
      return host_group_->plans().switching().OnPromise(host, *promise);
    }
    if (const auto* question = message.As<AskPlanMessage>()) {
      return host_group_->plans().OnAskPlan(peer, *question);
    }
  }
  if (!from_home) return;
  if (const auto* plan = message.As<PlanMessage>()) return host_group_->plans().OnPlan(plan->plan);
  if (const auto* proposal = message.As<ProposeMessage>()) {
    return host_group_->plans().switching().OnPropose(*proposal);
  }
  if (const auto* settlement = message.As<SettleMessage>()) {
    return host_group_->plans().switching().OnSettle(*settlement);
  }
  if (const auto* links = message.As<LinkRatesMessage>()) {
    return host_group_->plans().OnRates(links->rates);
  }
  if (const auto* asked = message.As<AskProgressMessage>()) {
    return TellProgress(asked->sequence);
  }
  if (const auto* verdict = message.As<VerdictMessage>()) {
    return OnVerdict(verdict->sequence, verdict->status);
  }
  if (const auto* agreed = message.As<AgreedMessage>()) return OnAgreed(agreed->sequence);
  if (const auto* late = message.As<LateMessage>()) OnLate(*late);
}

// Whether a message of a pair makes sense: from a rank there, to one here.
bool Communicator::IsFrom(transport::PeerId peer, int there, int here) {
  const bool exist = there >= 0 && there < ranks() && here >= 0 && here < ranks();
  if (!exist || !IsRemote(there) || IsRemote(here)) return false;
  return host_group_->NotePeer(there, peer);
}

void Communicator::OnBroken(const BrokenMessage& broken) {
  const Status& why = broken.status;
  if (why.ok()) return;
  if (broken.revoked) {
    Revoke(why);
  } else {
    Break(why);
  }
}

// The home tells all; the others tell the home. Where that is lost those that were reached learn
// the reason before they hear of ranks that leave for it.
void Communicator::TellEnd(bool revoked, const Status& why) {
  const BrokenMessage broken{host_group_->roster().key, revoked, why};
  if (host_group_->is_home()) {
    host_group_->TellHosts(broken);
  } else if (hosts_.plans.cluster->Linked(host_group_->roster().home)) {
    host_group_->TellHome(broken);
  } else {
    host_group_->TellReached(broken);
  }
  host_group_->EndFrom(0);
  host_group_->TellReached(ClosedMessage{host_group_->roster().key, window_.start()});
  DropClosed();
}

// From which collective on none is begun here any more.
uint64_t Communicator::NeverBegunFrom() const {
  if (state_ != State::kReady) return window_.start();
  const uint64_t left = *std::min_element(left_after_.begin(), left_after_.end());
  return left == kStays ? kStays : std::max(left, window_.start());
}

// The peer has begun collectives that are not begun here any more, or will soon not be: the news of
// the end take another way. What it sent of them is dropped.
void Communicator::DropLeftovers(transport::PeerId peer, uint64_t collectives) {
  closed_[peer] = std::max(closed_[peer], collectives);
  DropClosed();
}

void Communicator::DropClosed() {
  const uint64_t first = NeverBegunFrom();
  if (first == kStays || local_ranks_ == 0) return;
  transport::Transport& transport = hosts_.plans.cluster->transport();
  for (const auto& [peer, collectives] : std::exchange(closed_, {})) {
    HostGroup::DropCollectives(&transport, peer, host_group_->roster().key, first, collectives);
  }
}

void Communicator::OnRankLeft(int rank, uint64_t sequence) {
  if (rank < 0 || rank >= ranks() || !IsRemote(rank) || HasLeft(rank)) return;
  left_after_[static_cast<size_t>(rank)] = sequence;
  host_group_->plans().switching().OnRankLeft();
  hosts_.ranks->OnRankLeft(*this, rank);
  if (state_ != State::kReady) return;
  const Status why = RemoteError("rank {} has left the communicator", rank);
  FailWindowFrom(sequence, why);
  EndFrom(sequence, why);
  remote_pairs_->OnPeerRankLeft(rank, why);
}

// Collectives from there on cannot be carried out. Those that others have begun here end, and what
// was sent of them is dropped at the other hosts.
void Communicator::EndFrom(uint64_t sequence, const Status& why) {
  for (MatchedOperation* operation : in_flight_) {
    const bool collective =
        operation->network != nullptr && !operation->parts.front()->crosses_hosts;
    if (!collective || operation->sequence < sequence) continue;
    operation->verdict = why;
    operation->told = true;
    operation->network->Cancel(why);
  }
  const std::vector<MatchedOperation*> held = std::exchange(held_, {});
  for (MatchedOperation* operation : held) {
    if (operation->sequence < sequence) {
      held_.push_back(operation);
      continue;
    }
    operation->told = true;
    Settle(operation, why);
  }
  wanted_.erase(wanted_.lower_bound(sequence), wanted_.end());
  early_verdicts_.erase(early_verdicts_.lower_bound(sequence), early_verdicts_.end());
  host_group_->EndFrom(sequence);
  if (window_.start() > sequence) {
    host_group_->TellReached(ClosedMessage{host_group_->roster().key, window_.start()});
  }
  DropClosed();
}

void Communicator::OnPeerLost(transport::PeerId peer) {
  const Roster& roster = host_group_->roster();
  const int host = roster.HostOf(peer);
  if (host >= 0) LoseHost(host);
  if (peer == roster.home) {
    Break(RemoteError("the communicator is lost: the daemon that looked after it does not answer"));
  }
}

void Communicator::LoseHost(int host) {
  std::vector<int> lost;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (host_group_->roster().host_of_rank[static_cast<size_t>(rank)] != host || HasLeft(rank))
      continue;
    lost.push_back(rank);
  }
  for (const int rank : lost) left_after_[static_cast<size_t>(rank)] = window_.start();
  if (lost.empty()) return;
  Break(RemoteError("{} {} lost: their host's daemon does not answer", RankList(lost),
                    lost.size() == 1 ? "is" : "are"));
  for (const int rank : lost) hosts_.ranks->OnRankLeft(*this, rank);
}

// ---------------------------------------------------------------------------------------------
// Agreement

ProgressMessage Communicator::ProgressOf(uint64_t sequence) const {
  ProgressMessage progress{.communicator = host_group_->roster().key, .sequence = sequence};
  for (const ProgressMessage& ended : history_) {
    if (ended.sequence == sequence) return ended;
  }
  const auto describe = [&](const MatchedOperation& operation, HostProgress state) {
    progress.state = state;
    for (const PostedOperation* part : operation.parts) {
      if (part != nullptr && progress.requests.empty()) {
        progress.requests.push_back(RequestFrom(*part));
      }
    }
  };
  for (const MatchedOperation* operation : in_flight_) {
    const bool this_one = operation->sequence == sequence && operation->network != nullptr &&
                          !operation->parts.front()->crosses_hosts;
    if (this_one) describe(*operation, HostProgress::kRunning);
  }
  for (const MatchedOperation* operation : held_) {
    if (operation->sequence != sequence) continue;
    describe(*operation, operation->done_here ? HostProgress::kRunning : HostProgress::kFailed);
    if (operation->done_here) continue;
    progress.status = RemoteError("the ranks of another host cannot be reached during {}",
                                  NameOf(operation->parts.front()->descriptor, 0));
  }
  if (progress.state != HostProgress::kWaiting) return progress;
  if (sequence < window_.start()) {
    progress.state = HostProgress::kDone;  // long ago
    return progress;
  }
  const MatchedOperation* const waiting = window_.Find(sequence);
  if (waiting != nullptr) describe(*waiting, HostProgress::kWaiting);
  // Behind the communicator's own collectives a rank is where it should be: these tell for
  // themselves whom they wait for.
  const bool in_turn =
      sequence > window_.start() ||
      std::any_of(in_flight_.begin(), in_flight_.end(), [&](const MatchedOperation* operation) {
        return !operation->parts.front()->crosses_hosts;
      });
  for (int rank = 0; rank < ranks(); ++rank) {
    if (IsRemote(rank) || HasLeft(rank)) continue;
    const PostedOperation* part =
        waiting == nullptr ? nullptr : waiting->parts[place_of_rank_[static_cast<size_t>(rank)]];
    if (part == nullptr) {
      progress.missing.push_back(rank);
    } else if (!part->ready && !in_turn) {
      progress.queued.push_back(rank);
    }
  }
  return progress;
}

void Communicator::TellProgress(uint64_t sequence) {
  for (const MatchedOperation* operation : in_flight_) {
    const bool fails = operation->sequence == sequence && operation->network != nullptr &&
                       !operation->parts.front()->crosses_hosts &&
                       !operation->network->status().ok();
    if (!fails) continue;
    wanted_.insert(sequence);  // as what it ends is told in a moment
    return;
  }
  const ProgressMessage progress = ProgressOf(sequence);
  if (progress.state == HostProgress::kDone || progress.state == HostProgress::kFailed) {
    wanted_.erase(sequence);
  } else {
    wanted_.insert(sequence);
  }
  host_group_->TellHome(progress);
}

// Whether ranks were told that a collective of some time ago went well.
bool Communicator::EndedWell(uint64_t sequence) const {
  return std::none_of(history_.begin(), history_.end(), [&](const ProgressMessage& ended) {
    return ended.sequence == sequence && ended.state == HostProgress::kFailed;
  });
}

// How an operation has ended here, for the home to ask.
void Communicator::NoteEnd(const MatchedOperation& operation, const Status& outcome) {
  const PostedOperation& first = *operation.parts.front();
  if (IsPointToPoint(first.descriptor.collective)) return;
  ProgressMessage end{.communicator = host_group_->roster().key, .sequence = operation.sequence};
  end.state = outcome.ok() ? HostProgress::kDone : HostProgress::kFailed;
  end.requests.push_back(RequestFrom(first));
  const bool news = !outcome.ok() && !operation.told;
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
  history_.push_back(std::move(end));
  if (history_.size() > kRemembered) history_.pop_front();
  const bool tell = news || wanted_.contains(operation.sequence);
  if (tell && state_ == State::kReady) TellProgress(operation.sequence);
}

void Communicator::TellSlow(uint64_t now_ns) {
  if (state_ != State::kReady) return;
  ForEachBegun([&](MatchedOperation* operation) {
    const bool collective = !IsPointToPoint(operation->parts.front()->descriptor.collective);
    const bool slow =
        collective && !operation->reported && now_ns > operation->started_ns + kSlowNanoseconds;
    if (!slow) return;
    operation->reported = true;
    TellProgress(operation->sequence);
  });
}

void Communicator::OnVerdict(uint64_t sequence, const Status& verdict) {
  if (state_ != State::kReady || verdict.ok()) return;
  host_group_->Forget(host_group_->CollectiveNumber(sequence));
  for (MatchedOperation* operation : in_flight_) {
    const bool this_one = operation->sequence == sequence && operation->network != nullptr &&
                          !operation->parts.front()->crosses_hosts;
    if (!this_one) continue;
    operation->verdict = verdict;
    operation->told = true;
    return operation->network->Cancel(verdict);
  }
  if (MatchedOperation* const held = TakeHeld(sequence)) {
    held->told = true;
    return Settle(held, verdict);
  }
  if (sequence < window_.start()) {
    // Ranks were told that all went well. Of what was done at another host that is true; not where
    // they have not been at the same.
    if (verdict.code() == Code::kInvalidUsage && EndedWell(sequence)) Revoke(verdict);
    return;
  }
  if (MatchedOperation* const waiting = window_.Find(sequence)) {
    waiting->verdict = verdict;
    waiting->told = true;
    return LaunchReady();
  }
  early_verdicts_[sequence] = verdict;
}

void Communicator::OnLate(const LateMessage& late) {
  bool found = false;
  ForEachBegun([&](MatchedOperation* operation) {
    const bool collective = !IsPointToPoint(operation->parts.front()->descriptor.collective);
    if (found || !collective || operation->sequence != late.sequence) return;
    found = true;
    operation->late_ranks = late.missing;
    Notify(operation->parts, late.notice);
  });
  if (!found) observers_.Tell(&CommunicatorObserver::OnLate, *this, late.notice);
}

}  // namespace harmonaize::daemon
