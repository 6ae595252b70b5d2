#include "daemon/multihost/remote_pairs.h"

#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/wait_lister.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/network_runner.h"
#include "daemon/tenant/operation_text.h"

namespace harmonaize::daemon {
namespace {

/// Most transfers of a communicator that one list of waits looks at.
constexpr size_t kListed = 256;

bool Sends(const PostedOperation& part) {
  return part.descriptor.collective == Collective::kSend;
}

}  // namespace

RemotePairs::TransferId RemotePairs::IdOf(const PostedOperation& part) {
  return {.peer = part.descriptor.root,
          .self = part.member->rank,
          .sends = Sends(part),
          .number = part.pair_number};
}

void RemotePairs::Post(PostedOperation* part) {
  TransferId id = IdOf(*part);
  id.number = posted_[{id.from(), id.to()}]++;
  part->pair_number = id.number;
  Transfer& transfer = transfers_[id];
  transfer.part = part;
  const Result<HostPlan*> plan =
      host_group_->plans().PairPlanFor(id.peer, id.sends);  // begins to reach the peer
  if (!plan.ok()) transfer.failure = plan.status();
  if (!id.sends) TakeOffer(id, &transfer);
}

// Takes the offer of a receive's peer, if it has come already.
void RemotePairs::TakeOffer(const TransferId& id, Transfer* transfer) {
  auto untaken = untaken_.extract({id.self, id});
  if (untaken.empty()) return;
  transfer->offered = true;
  transfer->offer = std::move(untaken.mapped());
  if (!transfer->offer.status.ok()) transfer->failure = transfer->offer.status;
}

void RemotePairs::OnReady(PostedOperation* part) {
  Advance(IdOf(*part));
}

RemotePairs::Transfer* RemotePairs::Find(const TransferId& id) {
  const auto found = transfers_.find(id);
  return found == transfers_.end() ? nullptr : &found->second;
}

// Takes the next step of a transfer, once the part's stream has come to it and the peer has said
// what the step needs.
void RemotePairs::Advance(const TransferId& id) {
  Transfer* const transfer = Find(id);
  if (transfer == nullptr || !transfer->part->ready || transfer->running != nullptr) return;
  NoteFailure(id, transfer);
  if (!transfer->failure.ok()) return Finish(id, transfer->failure);
  if (id.sends && !std::exchange(transfer->offered, true)) {
    const Status invalid = transfer->part->invalid;
    Offer(id, transfer->part->descriptor, invalid);
    if (!invalid.ok()) return Finish(id, invalid);
  }
  if (!transfer->offered) return;
  if (id.sends && !transfer->answered && HasWindows(*transfer->part)) return;
  if (!transfer->transferred && !HasTurn(id, transfer)) return;
  if (!id.sends && !std::exchange(transfer->answered, true)) {
    const Status fits = CheckOffer(id, *transfer);
    Answer(id, fits);
    if (!fits.ok()) {
      Forget(id);
      return Finish(id, fits);
    }
  }
  if (!transfer->transferred) return Start(id, *transfer);
  if (transfer->answered) Finish(id, Status::Ok());
}

// Notes why a transfer cannot take place any more, also if its turn to be told has not come yet.
void RemotePairs::NoteFailure(const TransferId& id, Transfer* transfer) const {
  if (!end_.ok()) transfer->failure = end_;
  if (!transfer->failure.ok() || transfer->offered || !communicator_->HasLeft(id.peer)) return;
  transfer->failure = RemoteError("rank {} has left the communicator", id.peer);
}

Status RemotePairs::CheckOffer(const TransferId& id, const Transfer& transfer) const {
  if (!transfer.part->invalid.ok()) return transfer.part->invalid;
  const OperationDescriptor& receive = transfer.part->descriptor;
  const OfferMessage& offer = transfer.offer;
  OperationDescriptor send;
  send.collective = Collective::kSend;
  send.count = offer.count;
  send.type = offer.type;
  if (Agree(send, receive)) {
    if (send.type != receive.type) {
      communicator_->WarnOnce(transfer.part, DifferentTypes(send, id.peer, receive, id.self));
    }
    return Status::Ok();
  }
  return InvalidUsage(
      "the ranks disagree about a send: rank {} sends {} x {}, rank {} receives {} x {}", id.peer,
      offer.count, DataTypeName(offer.type), id.self, receive.count, DataTypeName(receive.type));
}

void RemotePairs::Offer(const TransferId& id, const OperationDescriptor& send,
                        const Status& status) {
  host_group_->TellHostOf(id.peer, OfferMessage{host_group_->roster().key, id.from(), id.to(),
                                                id.number, send.count, send.type, status});
}

void RemotePairs::Answer(const TransferId& id, const Status& status) {
  host_group_->TellHostOf(
      id.peer, AnswerMessage{host_group_->roster().key, id.from(), id.to(), id.number, status});
}

void RemotePairs::Forget(const TransferId& id) {
  host_group_->ForgetAt(id.peer, host_group_->PairNumber(id.from(), id.to(), id.number));
}

// Returns whether a transfer need not wait for others of its rank. The first call queues it.
bool RemotePairs::HasTurn(const TransferId& id, Transfer* transfer) {
  if (!HasWindows(*transfer->part)) return true;
  const Lane lane = LaneOf(id);
  if (!std::exchange(transfer->in_lane, true)) lanes_.Enter(id, {&lane, 1});
  return lanes_.IsFirst(id, {&lane, 1});
}

// The next one goes on soon, and not at once: transfers that fail would end each other. One that
// has ended before its turn is still queued.
void RemotePairs::LeaveLane(const TransferId& id) {
  const Lane lane = LaneOf(id);
  for (const TransferId& next : lanes_.Leave(id, {&lane, 1})) {
    communicator_->CallSoon(
        [this, next] { Find(next) == nullptr ? LeaveLane(next) : Advance(next); });
  }
}

void RemotePairs::Start(const TransferId& id, Transfer& transfer) {
  if (transfer.part->descriptor.count == 0) {
    transfer.transferred = true;
    return Advance(id);
  }
  const Result<HostPlan*> plan = host_group_->plans().PairPlanFor(id.peer, id.sends);
  if (!plan.ok()) return Finish(id, plan.status());
  if (*plan == nullptr) return AwaitPlan(id, transfer);
  const Result<MatchedOperation*> started = runner_->StartTransfer(
      transfer.part, *plan, host_group_->PairNumber(id.from(), id.to(), id.number));
  // Where the tenant cannot pay for it, the communicator breaks, and may take the transfer along.
  if (Find(id) == nullptr) return;
  if (!started.ok()) return Finish(id, started.status());
  transfer.running = *started;
}

void RemotePairs::AwaitPlan(const TransferId& id, Transfer& transfer) {
  if (transfer.needs_plan) return;
  await_plan_.insert(id);
  transfer.needs_plan = true;
}

void RemotePairs::OnOffer(const OfferMessage& offer) {
  const TransferId id{.peer = offer.from, .self = offer.to, .sends = false, .number = offer.number};
  if (communicator_->HasLeft(offer.to)) {
    Forget(id);
    return Answer(id, RemoteError("rank {} has left the communicator", offer.to));
  }
  Transfer* const transfer = Find(id);
  if (transfer == nullptr) return KeepOffer(id, offer);
  if (const Status withdrawn = offer.status; !withdrawn.ok()) {
    transfer->failure = withdrawn;
    if (transfer->running != nullptr) {
      return runner_->CancelTransfer(transfer->running, withdrawn);
    }
  }
  transfer->offered = true;
  transfer->offer = offer;
  Advance(id);
}

// Keeps an offer for which no receive was posted, unless its receive has ended. The communicator
// breaks where the tenant cannot pay for it.
void RemotePairs::KeepOffer(const TransferId& id, const OfferMessage& offer) {
  const auto posted = posted_.find({id.from(), id.to()});
  if (posted != posted_.end() && id.number < posted->second) return;
  const std::pair place(id.self, id);
  if (!untaken_.contains(place)) {
    const Status paid =
        paid_offers_.Cover(static_cast<int64_t>(untaken_.size()) + 1,
                           [this](int64_t bytes) { return communicator_->Pay(bytes); });
    if (!paid.ok()) return communicator_->Break(paid);
  }
  untaken_[place] = offer;
}

void RemotePairs::OnAnswer(const AnswerMessage& answer) {
  const TransferId id{
      .peer = answer.to, .self = answer.from, .sends = true, .number = answer.number};
  Transfer* const transfer = Find(id);
  if (transfer == nullptr || !transfer->offered) return;
  transfer->answered = true;
  if (transfer->failure.ok()) transfer->failure = answer.status;
  if (!transfer->failure.ok() && transfer->running != nullptr) {
    return runner_->CancelTransfer(transfer->running, transfer->failure);
  }
  Advance(id);
}

void RemotePairs::OnExecuted(MatchedOperation* operation) {
  const TransferId id = IdOf(*operation->parts.front());
  Transfer& transfer = *Find(id);
  // EndTransfer may break the communicator. Until it returns this transfer counts as running, and
  // stays.
  const Status ended = runner_->EndTransfer(operation);
  transfer.running = nullptr;
  transfer.transferred = true;
  NoteFailure(id, &transfer);
  if (transfer.failure.ok() && !ended.ok()) {
    transfer.failure = ended;
    // The other side may wait for data that will never come.
    if (id.sends) {
      Offer(id, transfer.part->descriptor, ended);
    } else {
      Answer(id, ended);
    }
  }
  Advance(id);
}

// Takes the outcome by value, since the transfer that ends often holds it.
void RemotePairs::Finish(const TransferId& id, Status outcome) {
  const auto found = transfers_.find(id);
  PostedOperation* const part = found->second.part;
  if (found->second.needs_plan) await_plan_.erase(id);
  const bool in_lane = found->second.in_lane;
  transfers_.erase(found);
  if (!end_.ok()) Forget(id);
  communicator_->FinishPart(part, outcome);
  if (in_lane) LeaveLane(id);
}

// ---------------------------------------------------------------------------------------------
// What waits

bool RemotePairs::Waits(const TransferId& id, const Transfer& transfer) {
  return transfer.part->ready && (id.sends ? !transfer.answered : !transfer.offered);
}

// Returns whether no slice has come or gone since the last look, and that is not this rank's doing.
bool RemotePairs::WaitsForData(Transfer* transfer, uint64_t now_ns) {
  if (transfer->running == nullptr) return false;
  const uint32_t left = transfer->running->network.execution->slices_left();
  if (left != std::exchange(transfer->slices_left, left) || transfer->slices_left_since_ns == 0) {
    transfer->slices_left_since_ns = now_ns;
    return false;
  }
  return transfer->running->feed.empty() || transfer->running->feed.Filling().empty();
}

void RemotePairs::LookAtSome(size_t most, uint64_t now_ns,
                             const std::function<void(const OtherHosts::WaitingPair&)>& call) {
  auto next = transfers_.upper_bound(looked_at_);
  for (size_t i = 0; i < most && i < transfers_.size(); ++i, ++next) {
    if (next == transfers_.end()) next = transfers_.begin();
    looked_at_ = next->first;
    Transfer& transfer = next->second;
    if (Waits(next->first, transfer)) {
      call({transfer.part, transfer.part->ready_ns, false});
    } else if (WaitsForData(&transfer, now_ns)) {
      call({transfer.part, transfer.slices_left_since_ns, true});
    }
  }
}

void RemotePairs::ListWaits(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const {
  size_t looked_at = 0;
  for (const auto& [id, transfer] : transfers_) {
    if (++looked_at > kListed || waits->full()) return;
    CommunicatorWait wait;
    if (Waits(id, transfer)) {
      wait.since_ns = transfer.part->ready_ns;
      wait.Add(id.peer, Awaited::kCall);
    } else if (transfer.running != nullptr && transfer.slices_left_since_ns != 0) {
      wait.since_ns = transfer.slices_left_since_ns;
      const bool filling = !transfer.running->feed.Filling().empty();
      wait.Add(filling ? id.self : id.peer, Awaited::kData);
      wait.progress = transfer.slices_left;
    } else {
      continue;
    }
    if (now_ns < wait.since_ns + least_ns) continue;
    wait.key = KeyOf(*transfer.part);
    wait.operation = NameOf(transfer.part->descriptor, id.self);
    wait.waiting = {transfer.part};
    waits->listed.push_back(std::move(wait));
  }
}

size_t RemotePairs::ForFirst(size_t most, const std::function<void(PostedOperation*)>& call) const {
  size_t looked_at = 0;
  for (const auto& [id, transfer] : transfers_) {
    if (looked_at == most) break;
    ++looked_at;
    if (Waits(id, transfer)) call(transfer.part);
  }
  return transfers_.size() - looked_at;
}

}  // namespace harmonaize::daemon
