#include "daemon/multihost/remote_pipes.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/pipe_id.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/plans/host_plan.h"
#include "daemon/tenant/finished_parts.h"

namespace harmonaize::daemon {
namespace {

/// Pipes that end at once, before the engine looks at other tenants' work. A pipe has up to
/// kMostMessagesOfPipe messages, of which each takes some tenths of a microsecond.
constexpr size_t kPipesAtOnce = 4;

/// Returns the name of a message in the transport.
transport::MessageTag TagOf(uint64_t number, uint64_t name) {
  return {.operation = number,
          .step = static_cast<uint32_t>(name >> 32),
          .part = static_cast<uint32_t>(name)};
}

Status ClosedThere(int rank) {
  return RemoteError("rank {} has closed the pipe", rank);
}

}  // namespace

RemotePipes::RemotePipes(const HostServices& services, Communicator* communicator, HostGroup* group)
    : services_(services),
      communicator_(communicator),
      group_(group),
      portions_(communicator, kPipesAtOnce, [this] { return EndOne(); }) {}

int RemotePipes::own_rank() const {
  return group_->roster().IsLocal(0) ? 0 : 1;
}

int RemotePipes::FabricHostOfPeer() const {
  const Roster& roster = group_->roster();
  const auto host = static_cast<size_t>(roster.host_of_rank[static_cast<size_t>(peer_rank())]);
  return roster.fabric_hosts[host];
}

bool RemotePipes::PeerIsLinked() const {
  const Roster& roster = group_->roster();
  const auto host = static_cast<size_t>(roster.host_of_rank[static_cast<size_t>(peer_rank())]);
  const auto& peer = roster.peers[host];
  return peer.has_value() && services_.cluster->Linked(*peer);
}

Result<HostPlan*> RemotePipes::Plan() {
  return group_->plans().PairPlanFor(peer_rank(), true);
}

// ---------------------------------------------------------------------------------------------
// Messages

void RemotePipes::Post(PostedOperation* message) {
  Transfer* transfer = nullptr;
  const Status admitted = Admit(message, &transfer);
  if (!admitted.ok()) return services_.finished->Finish(message, admitted);
  Open();
  Start(transfer);
}

Status RemotePipes::Admit(PostedOperation* message, Transfer** transfer) {
  Status refused;
  Pipe* const pipe = PipeOf(static_cast<uint32_t>(message->descriptor.scalar), &refused);
  if (pipe == nullptr) return refused;
  if (pipe->closed_here) return InvalidUsage("a message in a pipe that this process has closed");
  if (pipe->closed_there || peer_gone_) return ClosedThere(peer_rank());
  if (pipe->sends.size() + pipe->receives.size() >= kMostMessagesOfPipe) {
    return InvalidUsage("more than {} messages under way in one pipe", kMostMessagesOfPipe);
  }
  const bool sends = message->descriptor.collective == Collective::kSend;
  const auto [place, is_new] =
      (sends ? pipe->sends : pipe->receives).try_emplace(message->descriptor.sequence);
  if (!is_new) return InvalidUsage("a message was posted twice under one name");
  place->second.owner = this;
  place->second.pipe = pipe;
  place->second.part = message;
  place->second.sends = sends;
  *transfer = &place->second;
  if (sends && sending_++ == 0) services_.network->BeginMessages(communicator_->gang());
  return Status::Ok();
}

// Returns the pipe, which is made where it is not there. Returns nullptr, with the reason, if the
// tenant cannot pay for it.
RemotePipes::Pipe* RemotePipes::PipeOf(uint32_t pipe, Status* refused) {
  const auto found = pipes_.find(pipe);
  if (found != pipes_.end()) return &found->second;
  *refused = paid_pipes_.Cover(static_cast<int64_t>(pipes_.size()) + 1,
                               [this](int64_t bytes) { return communicator_->Pay(bytes); });
  if (!refused->ok()) return nullptr;
  Pipe& made = pipes_[pipe];
  made.id = pipe;
  made.number = HostGroup::PipeNumber(group_->roster().key, pipe);
  return &made;
}

void RemotePipes::Start(Transfer* transfer) {
  const Result<HostPlan*> plan = Plan();
  if (!plan.ok()) return Finish(transfer, plan.status());
  if (*plan != nullptr) return PostInTransport(transfer, *plan);
  await_plan_.emplace(transfer->pipe->id, transfer->sends, transfer->part->descriptor.sequence);
}

void RemotePipes::OnPlanReady() {
  if (await_plan_.empty()) return;
  const Result<HostPlan*> plan = Plan();
  if (plan.ok() && *plan == nullptr) return;
  for (const auto& [id, sends, name] : std::exchange(await_plan_, {})) {
    const auto pipe = pipes_.find(id);
    if (pipe == pipes_.end()) continue;
    Transfers& transfers = sends ? pipe->second.sends : pipe->second.receives;
    const auto transfer = transfers.find(name);
    if (transfer == transfers.end() || transfer->second.in_transport) continue;
    Start(&transfer->second);
  }
}

void RemotePipes::PostInTransport(Transfer* transfer, HostPlan* plan) {
  ExpectReceipts(plan);
  const OperationDescriptor& descriptor = transfer->part->descriptor;
  const int host = FabricHostOfPeer();
  const transport::PeerId peer = plan->PeerOf(host);
  const transport::MessageTag tag = TagOf(transfer->pipe->number, descriptor.sequence);
  const transport::Completion completion{[](void* context, const Status& status, size_t bytes) {
                                           auto* const ended = static_cast<Transfer*>(context);
                                           ended->owner->OnTransported(ended, status, bytes);
                                         },
                                         transfer};
  transport::Transport& transport = services_.cluster->transport();
  Status posted;
  if (transfer->sends) {
    const transport::RailChoice rail =
        plan->RailOf({.operation = transfer->pipe->number,
                      .host = host,
                      .number = static_cast<uint32_t>(descriptor.sequence)},
                     descriptor.count);
    posted = transport.PostSend(peer, rail, tag, {transfer->part->send.address, descriptor.count},
                                completion);
  } else {
    posted = transport.PostReceive(peer, tag, {transfer->part->receive.address, descriptor.count},
                                   completion);
  }
  if (!posted.ok()) return Finish(transfer, posted);
  transfer->in_transport = true;
  ++in_transport_;
}

// The message of a receive that was too long has come, and counts as received: its sender learns
// why it was not taken.
void RemotePipes::OnTransported(Transfer* transfer, const Status& status, size_t bytes) {
  transfer->in_transport = false;
  --in_transport_;
  transfer->part->moved_bytes = bytes;
  const bool was_ended = !transfer->failure.ok();
  if (!transfer->sends && !was_ended && (status.ok() || status.code() == Code::kInvalidUsage)) {
    Note(*transfer, status.code());
  }
  if (was_ended) return Finish(transfer, Status(transfer->failure));
  if (!status.ok()) {
    const bool too_long = status.code() == Code::kInvalidUsage && !transfer->sends;
    return Finish(transfer, too_long
                                ? InvalidUsage("a message came that is longer than the {} "
                                               "bytes that were due at most",
                                               transfer->part->descriptor.count)
                                : RemoteError("the connection to rank {} was lost", peer_rank()));
  }
  if (!transfer->sends || transfer->received) Finish(transfer, Status::Ok());
}

void RemotePipes::Finish(Transfer* transfer, Status outcome) {
  Pipe* const pipe = transfer->pipe;
  PostedOperation* const part = transfer->part;
  const bool sends = transfer->sends;
  if (outcome.ok()) communicator_->CountMessage(part->moved_bytes);
  (sends ? pipe->sends : pipe->receives).erase(part->descriptor.sequence);
  if (sends && --sending_ == 0) services_.network->EndMessages(communicator_->gang());
  DropIfUnused(pipe);
  // Not what the communicator has failed with: a send may have been received all the same.
  services_.finished->Finish(part, outcome);
}

// Ends a transfer: at once, or as soon as the transport lets go of it, for which the caller cancels
// the pipe.
void RemotePipes::End(Transfer* transfer, const Status& why) {
  if (!transfer->in_transport) return Finish(transfer, why);
  if (transfer->failure.ok()) transfer->failure = why;
}

void RemotePipes::EndSends(Pipe* pipe, const Status& why) {
  std::vector<Transfer*> all;
  for (auto& [name, transfer] : pipe->sends) all.push_back(&transfer);
  for (Transfer* const transfer : all) End(transfer, why);
}

void RemotePipes::EndReceives(Pipe* pipe, const Status& why) {
  std::vector<Transfer*> all;
  for (auto& [name, transfer] : pipe->receives) all.push_back(&transfer);
  for (Transfer* const transfer : all) End(transfer, why);
}

void RemotePipes::DropIfUnused(Pipe* pipe) {
  const bool needed = pipe->closed_here != pipe->closed_there && !ended_;
  if (pipe->empty() && !needed) pipes_.erase(pipe->id);
}

// ---------------------------------------------------------------------------------------------
// Receipts

void RemotePipes::Note(const Transfer& receive, Code code) {
  due_.push_back(
      {receive.part->descriptor.sequence, receive.pipe->id, static_cast<uint32_t>(code)});
  if (std::exchange(sends_receipts_, true)) return;
  communicator_->CallSoon([this] {
    sends_receipts_ = false;
    SendReceipts();
  });
}

void RemotePipes::SendReceipts() {
  const Result<HostPlan*> plan = Plan();
  if (!plan.ok() || *plan == nullptr) return due_.clear();
  const int host = FabricHostOfPeer();
  const uint64_t number = HostGroup::ReceiptsNumber(group_->roster().key, own_rank());
  for (size_t first = 0; first < due_.size(); first += kReceiptsAtOnce) {
    const size_t count = std::min(kReceiptsAtOnce, due_.size() - first);
    auto sent = std::make_unique<SentReceipts>();
    sent->owner = this;
    std::copy_n(due_.begin() + static_cast<std::ptrdiff_t>(first), count, sent->receipts.begin());
    const transport::RailChoice rail =
        (*plan)->RailOf({.operation = number, .host = host}, count * sizeof(Receipt));
    const Status posted = services_.cluster->transport().PostSend(
        (*plan)->PeerOf(host), rail, TagOf(number, receipts_sent_),
        std::as_bytes(std::span(sent->receipts).first(count)),
        {[](void* context, const Status&, size_t) {
           const std::unique_ptr<SentReceipts> done(static_cast<SentReceipts*>(context));
           --done->owner->in_transport_;
         },
         sent.get()});
    if (!posted.ok()) break;  // the peer's daemon is lost
    (void)sent.release();     // the completion has it
    ++in_transport_;
    ++receipts_sent_;
  }
  due_.clear();
}

void RemotePipes::ExpectReceipts(HostPlan* plan) {
  if (ended_ || std::exchange(expects_receipts_, true)) return;
  const uint64_t number = HostGroup::ReceiptsNumber(group_->roster().key, peer_rank());
  const Status posted = services_.cluster->transport().PostReceive(
      plan->PeerOf(FabricHostOfPeer()), TagOf(number, receipts_came_),
      std::as_writable_bytes(std::span(receipts_)),
      {[](void* context, const Status& status, size_t bytes) {
         static_cast<RemotePipes*>(context)->OnReceipts(status, bytes);
       },
       this});
  expects_receipts_ = posted.ok();
  if (posted.ok()) ++in_transport_;
}

void RemotePipes::OnReceipts(const Status& status, size_t bytes) {
  --in_transport_;
  expects_receipts_ = false;
  if (!status.ok()) return;
  ++receipts_came_;
  for (const Receipt& receipt : std::span(receipts_).first(bytes / sizeof(Receipt))) Take(receipt);
  const Result<HostPlan*> plan = Plan();
  if (plan.ok() && *plan != nullptr) ExpectReceipts(*plan);
  while (!too_early_.empty() && too_early_.front().receipts <= receipts_came_) {
    const PipesClosedMessage closed = too_early_.front();
    too_early_.pop_front();
    OnPeerClosed(closed);
  }
}

void RemotePipes::Take(const Receipt& receipt) {
  const auto pipe = pipes_.find(receipt.pipe);
  if (pipe == pipes_.end()) return;
  const auto found = pipe->second.sends.find(receipt.name);
  if (found == pipe->second.sends.end()) return;
  Transfer& send = found->second;
  send.received = true;
  send.part->moved_bytes = send.part->descriptor.count;
  const bool taken = receipt.code == static_cast<uint32_t>(Code::kOk);
  const Status outcome =
      taken ? Status::Ok()
            : InvalidUsage("a message of {} bytes is longer than what the other process receives",
                           send.part->descriptor.count);
  if (!send.in_transport) return Finish(&send, outcome);
  if (!taken && send.failure.ok()) send.failure = outcome;
}

// ---------------------------------------------------------------------------------------------
// Ends

Status RemotePipes::Close(uint32_t id) {
  Status refused;
  Pipe* const pipe = PipeOf(id, &refused);
  if (pipe == nullptr) return refused;
  if (std::exchange(pipe->closed_here, true)) return Status::Ok();
  const Status why = RemoteError("rank {} has closed the pipe", own_rank());
  const uint64_t number = pipe->number;
  Tell({.pipe = id});
  EndSends(pipe, why);
  // The ends of the last messages may have dropped the pipe.
  if (const auto left = pipes_.find(id); left != pipes_.end()) EndReceives(&left->second, why);
  if (const auto left = pipes_.find(id); left != pipes_.end()) DropIfUnused(&left->second);
  group_->ForgetAt(peer_rank(), number);
  return Status::Ok();
}

// Tells the other daemon that the pipes' end concerns this one.
void RemotePipes::Open() {
  if (std::exchange(used_, true)) return;
  group_->TellHostOf(peer_rank(),
                     PipesOpenedMessage{group_->roster().key, own_rank(), peer_rank()});
}

void RemotePipes::OnOpened() {
  used_ = true;
  if (!end_.ok()) Tell({.all = true});
}

// Sends what is to be told, behind all receipts that are due.
void RemotePipes::Tell(PipesClosedMessage closed) {
  SendReceipts();
  closed.communicator = group_->roster().key;
  closed.from = own_rank();
  closed.to = peer_rank();
  closed.receipts = receipts_sent_;
  group_->TellHostOf(peer_rank(), closed);
}

void RemotePipes::OnClosed(const PipesClosedMessage& closed) {
  if (closed.receipts <= receipts_came_ || !expects_receipts_) return OnPeerClosed(closed);
  too_early_.push_back(closed);
}

void RemotePipes::OnPeerClosed(const PipesClosedMessage& closed) {
  if (closed.all) {
    peer_gone_ = true;
    return BeginEnd(ClosedThere(peer_rank()));
  }
  Status refused;
  Pipe* const pipe = PipeOf(closed.pipe, &refused);
  if (pipe == nullptr) return communicator_->Break(refused);
  pipe->closed_there = true;
  const uint64_t number = pipe->number;
  const Status why = ClosedThere(peer_rank());
  EndSends(pipe, why);
  if (const auto left = pipes_.find(closed.pipe); left != pipes_.end()) {
    EndReceives(&left->second, why);
  }
  if (const auto left = pipes_.find(closed.pipe); left != pipes_.end()) {
    DropIfUnused(&left->second);
  }
  group_->ForgetAt(peer_rank(), number);
}

void RemotePipes::OnOwnRankLeft(const Status& why) {
  TellEnd();
  peer_gone_ = true;  // what it says of messages is for nobody any more
  BeginEnd(why);
}

void RemotePipes::FailAll(const Status& why) {
  TellEnd();
  if (!used_ || !PeerIsLinked()) peer_gone_ = true;
  BeginEnd(why);
}

void RemotePipes::TellEnd() {
  if (!used_ || !PeerIsLinked() || std::exchange(told_end_, true)) return;
  Tell({.all = true});
}

void RemotePipes::BeginEnd(const Status& why) {
  if (end_.ok()) end_ = why;
  next_end_ = 0;
  all_ended_ = false;
  portions_.Begin();
}

// Ends the messages of one pipe. Sends go on while the peer may have received them, and its daemon
// is there to tell.
bool RemotePipes::EndOne() {
  const auto found = all_ended_ ? pipes_.end() : pipes_.lower_bound(next_end_);
  if (found == pipes_.end()) {
    if (all_ended_) return false;
    all_ended_ = true;
    if (!peer_gone_) return false;
    ended_ = true;
    // What was to come is not awaited any more.
    group_->ForgetAt(peer_rank(), HostGroup::ReceiptsNumber(group_->roster().key, peer_rank()));
    return false;
  }
  const uint32_t id = found->first;
  const uint64_t number = found->second.number;
  const bool last = id == UINT32_MAX;
  next_end_ = id + 1;
  if (peer_gone_) EndSends(&found->second, end_);
  if (const auto left = pipes_.find(id); left != pipes_.end()) EndReceives(&left->second, end_);
  if (peer_gone_) group_->ForgetAt(peer_rank(), number);
  if (last) all_ended_ = true;
  return true;
}

}  // namespace harmonaize::daemon
