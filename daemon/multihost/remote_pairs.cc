#include "daemon/multihost/remote_pairs.h"

#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/network_runner.h"
#include "daemon/tenant/operation_text.h"

namespace harmonaize::daemon {
namespace {

bool Sends(const PostedOperation& part) {
  return part.descriptor.collective == Collective::kSend;
}

}  // namespace

template <typename Predicate>
std::vector<std::pair<RemotePairs::Pair, uint64_t>> RemotePairs::Where(Predicate predicate) const {
  std::vector<std::pair<Pair, uint64_t>> found;
  for (const auto& [pair, line] : lines_) {
    for (const auto& [number, transfer] : line.transfers) {
      if (predicate(transfer, pair)) found.emplace_back(pair, number);
    }
  }
  return found;
}

RemotePairs::Pair RemotePairs::PairOf(const PostedOperation& part) {
  const int self = part.member->rank;
  const int peer = part.descriptor.root;
  return Sends(part) ? Pair(self, peer) : Pair(peer, self);
}

void RemotePairs::Post(PostedOperation* part) {
  const int peer = part->descriptor.root;
  const Pair pair = PairOf(*part);
  Line& line = lines_[pair];
  part->pair_number = line.posted++;
  const auto [place, is_new] = line.transfers.try_emplace(part->pair_number);
  if (!is_new) --untaken_;
  Transfer& transfer = place->second;
  transfer.part = part;
  const Result<HostPlan*> plan =
      host_group_->plans().PairPlanFor(peer, Sends(*part));  // begins to reach the peer
  if (!plan.ok()) transfer.failure = plan.status();
  const bool never = communicator_->HasLeft(peer) && !transfer.offered;
  if (never) {
    transfer.failure = RemoteError("rank {} has left the communicator", peer);
  }
}

void RemotePairs::OnReady(PostedOperation* part) {
  Advance(PairOf(*part), part->pair_number);
}

RemotePairs::Transfer* RemotePairs::Find(const Pair& pair, uint64_t number) {
  const auto line = lines_.find(pair);
  if (line == lines_.end()) return nullptr;
  const auto found = line->second.transfers.find(number);
  return found == line->second.transfers.end() ? nullptr : &found->second;
}

// Takes the next step of a transfer, once the part's stream has come to it and the peer has said
// what the step needs.
void RemotePairs::Advance(const Pair& pair, uint64_t number) {
  Transfer* const transfer = Find(pair, number);
  if (transfer == nullptr || transfer->part == nullptr || !transfer->part->ready) return;
  if (transfer->running != nullptr) return;
  if (!transfer->failure.ok()) return Finish(pair, number, transfer->failure);
  const OperationDescriptor& descriptor = transfer->part->descriptor;
  const bool sends = Sends(*transfer->part);
  if (sends && !std::exchange(transfer->offered, true)) {
    const Status invalid = transfer->part->invalid;
    Offer(pair, number, descriptor, invalid);
    if (!invalid.ok()) return Finish(pair, number, invalid);
  }
  if (!transfer->offered) return;
  if (!sends && !std::exchange(transfer->answered, true)) {
    const Status fits = CheckOffer(pair, *transfer);
    Answer(pair, number, fits);
    if (!fits.ok()) {
      host_group_->Forget(host_group_->PairNumber(pair.first, pair.second, number));
      return Finish(pair, number, fits);
    }
  }
  if (!transfer->transferred) return Start(pair, number, *transfer);
  if (transfer->answered) Finish(pair, number, Status::Ok());
}

Status RemotePairs::CheckOffer(const Pair& pair, const Transfer& transfer) const {
  if (!transfer.part->invalid.ok()) return transfer.part->invalid;
  const OperationDescriptor& receive = transfer.part->descriptor;
  const OfferMessage& offer = transfer.offer;
  OperationDescriptor send;
  send.collective = Collective::kSend;
  send.count = offer.count;
  send.type = offer.type;
  if (Agree(send, receive)) {
    if (send.type != receive.type) {
      communicator_->WarnOnce(transfer.part,
                              DifferentTypes(send, pair.first, receive, pair.second));
    }
    return Status::Ok();
  }
  return InvalidUsage(
      "the ranks disagree about a send: rank {} sends {} x {}, rank {} receives {} x {}",
      pair.first, offer.count, DataTypeName(offer.type), pair.second, receive.count,
      DataTypeName(receive.type));
}

void RemotePairs::Offer(const Pair& pair, uint64_t number, const OperationDescriptor& send,
                        const Status& status) {
  host_group_->TellHostOf(pair.second,
                          OfferMessage{host_group_->roster().key, pair.first, pair.second, number,
                                       send.count, send.type, status});
}

void RemotePairs::Answer(const Pair& pair, uint64_t number, const Status& status) {
  host_group_->TellHostOf(pair.first, AnswerMessage{host_group_->roster().key, pair.first,
                                                    pair.second, number, status});
}

void RemotePairs::Start(const Pair& pair, uint64_t number, Transfer& transfer) {
  if (transfer.part->descriptor.count == 0) {
    transfer.transferred = true;
    return Advance(pair, number);
  }
  const bool sends = Sends(*transfer.part);
  const Result<HostPlan*> plan =
      host_group_->plans().PairPlanFor(sends ? pair.second : pair.first, sends);
  if (!plan.ok()) return Finish(pair, number, plan.status());
  transfer.needs_plan = *plan == nullptr;
  if (transfer.needs_plan) return;
  const Result<MatchedOperation*> started = runner_->StartTransfer(
      transfer.part, *plan, host_group_->PairNumber(pair.first, pair.second, number));
  // Where the tenant cannot pay for it, the communicator breaks, and takes the transfer along.
  if (Find(pair, number) == nullptr) return;
  if (!started.ok()) return Finish(pair, number, started.status());
  transfer.running = *started;
}

void RemotePairs::OnPlanReady() {
  std::vector<std::pair<Pair, uint64_t>> waiting;
  for (const auto& [pair, line] : lines_) {
    for (const auto& [number, transfer] : line.transfers) {
      if (transfer.needs_plan) waiting.emplace_back(pair, number);
    }
  }
  for (const auto& [pair, number] : waiting) Advance(pair, number);
}

// One more offer is kept for which no rank here has posted a receive; or the communicator is
// broken.
bool RemotePairs::PayForOffer() {
  const Status paid =
      paid_offers_.Cover(untaken_ + 1, [this](int64_t bytes) { return communicator_->Pay(bytes); });
  if (!paid.ok()) {
    communicator_->Break(paid);
    return false;
  }
  ++untaken_;
  return true;
}

void RemotePairs::OnOffer(const OfferMessage& offer) {
  const Pair pair(offer.from, offer.to);
  if (communicator_->HasLeft(offer.to)) {
    host_group_->Forget(host_group_->PairNumber(offer.from, offer.to, offer.number));
    return Answer(pair, offer.number, RemoteError("rank {} has left the communicator", offer.to));
  }
  Line& line = lines_[pair];
  if (!line.transfers.contains(offer.number)) {
    if (offer.number < line.posted) return;  // has ended
    if (!PayForOffer()) return;
  }
  Transfer& transfer = line.transfers[offer.number];
  if (const Status withdrawn = offer.status; !withdrawn.ok()) {
    transfer.failure = withdrawn;
    if (transfer.running != nullptr) {
      return runner_->CancelTransfer(transfer.running, withdrawn);
    }
  }
  transfer.offered = true;
  transfer.offer = offer;
  Advance(pair, offer.number);
}

void RemotePairs::OnAnswer(const AnswerMessage& answer) {
  const Pair pair(answer.from, answer.to);
  Transfer* const transfer = Find(pair, answer.number);
  if (transfer == nullptr || transfer->part == nullptr || !transfer->offered) return;
  transfer->answered = true;
  if (transfer->failure.ok()) transfer->failure = answer.status;
  if (!transfer->failure.ok() && transfer->running != nullptr) {
    return runner_->CancelTransfer(transfer->running, transfer->failure);
  }
  Advance(pair, answer.number);
}

void RemotePairs::OnExecuted(MatchedOperation* operation) {
  const PostedOperation& part = *operation->parts.front();
  const Pair pair = PairOf(part);
  const uint64_t number = part.pair_number;
  Transfer& transfer = *Find(pair, number);
  const OperationDescriptor& descriptor = part.descriptor;
  // EndTransfer may break the communicator. Until it returns this transfer counts as running, and
  // stays.
  const Status ended = runner_->EndTransfer(operation);
  transfer.running = nullptr;
  transfer.transferred = true;
  if (transfer.failure.ok() && !ended.ok()) {
    transfer.failure = ended;
    // The other side may wait for data that will never come.
    if (descriptor.collective == Collective::kSend) {
      Offer(pair, number, descriptor, ended);
    } else {
      Answer(pair, number, ended);
    }
  }
  Advance(pair, number);
}

// Takes the outcome by value, since the transfer that ends often holds it.
void RemotePairs::Finish(const Pair& pair, uint64_t number, Status outcome) {
  PostedOperation* const part = Find(pair, number)->part;
  lines_.at(pair).transfers.erase(number);
  communicator_->FinishPart(part, outcome);
}

void RemotePairs::OnPeerRankLeft(int rank, const Status& why) {
  const auto failing = Where([&](const Transfer& transfer, const Pair& pair) {
    return (pair.first == rank || pair.second == rank) && !transfer.offered;
  });
  for (const auto& [pair, number] : failing) {
    Find(pair, number)->failure = why;
    Advance(pair, number);
  }
}

void RemotePairs::OnOwnRankLeft(int rank, const Status& why) {
  const auto untaken = Where([&](const Transfer& transfer, const Pair& pair) {
    return pair.second == rank && transfer.part == nullptr;
  });
  for (const auto& [pair, number] : untaken) {
    host_group_->Forget(host_group_->PairNumber(pair.first, pair.second, number));
    lines_.at(pair).transfers.erase(number);
    --untaken_;
    Answer(pair, number, why);
  }
}

void RemotePairs::FailAll(const Status& why) {
  for (const auto& [pair, number] : Where([](const Transfer&, const Pair&) { return true; })) {
    Transfer* const transfer = Find(pair, number);
    transfer->failure = why;
    host_group_->Forget(host_group_->PairNumber(pair.first, pair.second, number));
    if (transfer->part == nullptr) {
      lines_.at(pair).transfers.erase(number);
      --untaken_;
    } else if (transfer->running != nullptr) {
      runner_->CancelTransfer(transfer->running, why);
    } else {
      Advance(pair, number);
    }
  }
}

void RemotePairs::ForEachWaiting(const std::function<void(PostedOperation*)>& call) const {
  for (const auto& [pair, line] : lines_) {
    for (const auto& [number, transfer] : line.transfers) {
      if (transfer.part == nullptr) continue;
      const bool waits = Sends(*transfer.part) ? !transfer.answered : !transfer.offered;
      if (waits && transfer.part->ready) call(transfer.part);
    }
  }
}

}  // namespace harmonaize::daemon
