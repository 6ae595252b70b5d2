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
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Pipes that end at once, before the engine looks at other tenants' work. A pipe has up to
/// kMostMessagesOfPipe messages, of which each takes some tenths of a microsecond.
constexpr size_t kPipesAtOnce = 4;

/// Bytes of a part of a message. Parts are dealt over rails one by one: a message of NCCL's, of
/// some hundred KiB, uses all of them, and waits less for one that is slow. A part goes without an
/// offer (TcpChannel::kMaxEagerBytes), which would cost it a round trip of its rail.
constexpr uint64_t kPartBytes = uint64_t{64} << 10;
/// Parts of a receive that are with the transport at once: as many as keep a fast link busy.
constexpr int kPartsAtOnce = 32;
/// Parts of all messages from which on each receive has one part with the transport, so that what a
/// tenant has there grows with its messages, which it pays for. They are 64 MiB.
constexpr size_t kPartsOfAll = 1024;
/// Bits of a part's name that number it within its message, below the message's name.
constexpr int kPartBits = 9;
constexpr int kNameBits = 64 - kPartBits;
/// Largest message, in bytes.
constexpr uint64_t kMostMessageBytes = kPartBytes << kPartBits;

/// Returns the name of a message in the transport.
transport::MessageTag TagOf(uint64_t number, uint64_t name) {
  return {.operation = number,
          .step = static_cast<uint32_t>(name >> 32),
          .part = static_cast<uint32_t>(name)};
}

Status TooLong(const PostedOperation& receive) {
  return InvalidUsage("a message came that is longer than the {} bytes that were due at most",
                      receive.descriptor.count);
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
  const OperationDescriptor& descriptor = message->descriptor;
  if (descriptor.sequence >> kNameBits != 0 || descriptor.count > kMostMessageBytes) {
    return InvalidUsage("a message with a name of more than {} bits, or of more than {} bytes",
                        kNameBits, kMostMessageBytes);
  }
  const bool sends = descriptor.collective == Collective::kSend;
  const auto [place, is_new] =
      (sends ? pipe->sends : pipe->receives).try_emplace(message->descriptor.sequence);
  if (!is_new) return InvalidUsage("a message was posted twice under one name");
  place->second.owner = this;
  place->second.pipe = pipe;
  place->second.part = message;
  place->second.sends = sends;
  *transfer = &place->second;
  if (sends) {
    place->second.has_length = true;
    place->second.length = descriptor.count;
  }
  place->second.awaited = (descriptor.flags & kNotAwaited) == 0;
  if (place->second.awaited && awaited_++ == 0) {
    services_.network->BeginMessages(communicator_->gang());
  }
  return Status::Ok();
}

// Returns the pipe, which is made where it is not there. Returns nullptr, with the reason, if the
// tenant cannot pay for it.
RemotePipes::Pipe* RemotePipes::PipeOf(uint32_t pipe, Status* refused) {
  const auto found = pipes_.find(pipe);
  if (found != pipes_.end()) return &found->second;
  *refused = PayForPipe();
  if (!refused->ok()) return nullptr;
  Pipe& made = pipes_[pipe];
  made.id = pipe;
  made.number = HostGroup::PipeNumber(group_->roster().key, pipe);
  return &made;
}

// Sees to it that one more pipe, or one more piece of news, is paid for.
Status RemotePipes::PayForPipe() {
  return paid_pipes_.Cover(static_cast<int64_t>(pipes_.size() + too_early_.size()) + 1,
                           [this](int64_t bytes) { return communicator_->Pay(bytes); });
}

void RemotePipes::Start(Transfer* transfer) {
  const Result<HostPlan*> plan = Plan();
  if (!plan.ok()) return Finish(transfer, plan.status());
  if (*plan != nullptr) return GoOn(transfer, *plan);
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
    if (transfer == transfers.end() || transfer->second.next_part > 0) continue;
    Start(&transfer->second);
  }
}

// Posts parts of a message as long as there are some that may go.
void RemotePipes::GoOn(Transfer* transfer, HostPlan* plan) {
  ExpectNotes(plan);
  if (transfer->sends) {
    BeginSend(transfer, plan);
  } else {
    const auto told = transfer->pipe->lengths.extract(transfer->part->descriptor.sequence);
    if (!told.empty()) SetLength(transfer, told.mapped());
    const bool is_first = transfer->next_part == 0;
    if (is_first && transfer->part->descriptor.count > kPartBytes) {
      Tell(*transfer, Note::Kind::kReady, 0);
    }
    PostReceives(transfer, plan);
  }
  FinishIfWhole(transfer);
}

// Ends a message of which the transport has no part any more, and none is to come.
void RemotePipes::FinishIfWhole(Transfer* transfer) {
  if (transfer->in_transport > 0) return;
  if (!transfer->failure.ok()) return Finish(transfer, Status(transfer->failure));
  if (!IsWhole(*transfer)) return;
  if (!transfer->sends) Tell(*transfer, Note::Kind::kReceived, 0);
  if (!transfer->sends || transfer->received) Finish(transfer, Status::Ok());
}

// Posts the parts of a receive that may come.
void RemotePipes::PostReceives(Transfer* transfer, HostPlan* plan) {
  const int at_once = in_transport_ < kPartsOfAll ? kPartsAtOnce : 1;
  while (transfer->failure.ok() && transfer->in_transport < at_once && HasPartToCome(*transfer)) {
    const Part part = NextPart(*transfer);
    const transport::Completion completion{[](void* context, const Status& status, size_t moved) {
                                             auto* const ended = static_cast<Transfer*>(context);
                                             ended->owner->OnPart(ended, status, moved);
                                           },
                                           transfer};
    const Status posted = services_.cluster->transport().PostReceive(
        plan->PeerOf(FabricHostOfPeer()), part.tag,
        {transfer->part->receive.address + part.offset, part.bytes}, completion);
    if (!posted.ok()) return Lose(transfer);
    CountPosted(transfer);
  }
}

// Sends the first part of a message, which may be all of it. It does not count as a rail's backlog:
// it may wait for its receive.
void RemotePipes::BeginSend(Transfer* transfer, HostPlan* plan) {
  if (transfer->length >= kPartBytes) Tell(*transfer, Note::Kind::kLength, transfer->length);
  transport::RailChoice rail = plan->RailOf({.operation = transfer->pipe->number,
                                             .host = FabricHostOfPeer(),
                                             .number = NextPart(*transfer).tag.part},
                                            NextPart(*transfer).bytes);
  if (!backlogs_.Admits(rail.rail)) rail = FreeRail(plan).value_or(rail);
  if (!PostSend(transfer, plan, rail, false).ok()) return Lose(transfer);
  transfer->ready = transfer->pipe->ready.erase(transfer->part->descriptor.sequence) > 0;
  if (!transfer->ready) return;
  SetDue(transfer, true);
  SendDueParts(plan);
}

std::optional<transport::RailChoice> RemotePipes::FreeRail(HostPlan* plan) const {
  return plan->RailAmong(FabricHostOfPeer(),
                         [this](size_t rail) { return backlogs_.Admits(rail); });
}

// Sends parts of messages, the oldest message first, as long as rails have room. Ends no message:
// callers may be amid one.
void RemotePipes::SendDueParts(HostPlan* plan) {
  while (!due_parts_.empty()) {
    Transfer* const transfer = due_parts_.front();
    while (transfer->failure.ok() && HasPartToCome(*transfer)) {
      const std::optional<transport::RailChoice> rail = FreeRail(plan);
      if (!rail.has_value()) return;
      // Where the peer is lost, all messages will end.
      if (!PostSend(transfer, plan, *rail, true).ok()) return Lose(transfer);
    }
    SetDue(transfer, false);
  }
}

Status RemotePipes::PostSend(Transfer* transfer, HostPlan* plan, const transport::RailChoice& rail,
                             bool counts) {
  const Part part = NextPart(*transfer);
  auto sent = std::make_unique<SentPart>();
  *sent = {transfer, rail.rail, counts ? part.bytes : 0, MonotonicNanoseconds()};
  HZ_RETURN_IF_ERROR(services_.cluster->transport().PostSend(
      plan->PeerOf(FabricHostOfPeer()), rail, part.tag,
      {transfer->part->send.address + part.offset, part.bytes},
      {[](void* context, const Status& status, size_t moved) {
         const std::unique_ptr<SentPart> done(static_cast<SentPart*>(context));
         done->transfer->owner->OnSentPart(*done, status, moved);
       },
       sent.get()}));
  if (counts) backlogs_.Add(rail.rail, part.bytes);
  (void)sent.release();  // the completion has it
  CountPosted(transfer);
  return Status::Ok();
}

void RemotePipes::OnSentPart(const SentPart& sent, const Status& status, size_t bytes) {
  if (sent.bytes > 0) {
    backlogs_.Remove(sent.rail, sent.bytes, MonotonicNanoseconds() - sent.since_ns);
  }
  OnPart(sent.transfer, status, bytes);
}

// Returns whether a part has yet to be posted, as far as the length of the message is known.
bool RemotePipes::HasPartToCome(const Transfer& transfer) {
  if (transfer.next_part == 0) return true;
  return transfer.has_length && transfer.next_part * kPartBytes < transfer.length;
}

RemotePipes::Part RemotePipes::NextPart(const Transfer& transfer) {
  const uint64_t most = transfer.has_length ? transfer.length : transfer.part->descriptor.count;
  const uint64_t offset = transfer.next_part * kPartBytes;
  const uint64_t name = transfer.part->descriptor.sequence << kPartBits | transfer.next_part;
  return {TagOf(transfer.pipe->number, name), offset, std::min(kPartBytes, most - offset)};
}

void RemotePipes::CountPosted(Transfer* transfer) {
  ++transfer->next_part;
  ++transfer->in_transport;
  ++in_transport_;
}

void RemotePipes::Lose(Transfer* transfer) const {
  transfer->failure = RemoteError("the connection to rank {} was lost", peer_rank());
}

void RemotePipes::SetDue(Transfer* transfer, bool due) {
  if (std::exchange(transfer->is_due, due) == due) return;
  if (due) {
    transfer->place = due_parts_.insert(due_parts_.end(), transfer);
  } else {
    due_parts_.erase(transfer->place);
  }
}

void RemotePipes::OnPart(Transfer* transfer, const Status& status, size_t bytes) {
  --transfer->in_transport;
  --in_transport_;
  if (!status.ok() && transfer->failure.ok()) {
    transfer->failure = FailureOf(*transfer, status);
    // A message that is too long has come, and its sender learns why it was not taken.
    if (transfer->failure.code() == Code::kInvalidUsage) {
      Tell(*transfer, Note::Kind::kReceived, static_cast<uint64_t>(Code::kInvalidUsage));
    }
  }
  if (!transfer->sends && transfer->failure.ok()) {
    transfer->part->moved_bytes += bytes;
    // A first part that is not full is all of the message.
    if (!transfer->has_length && bytes < kPartBytes) {
      transfer->has_length = true;
      transfer->length = bytes;
    }
  }
  if (const Result<HostPlan*> plan = Plan(); plan.ok() && *plan != nullptr) {
    if (transfer->sends) {
      SendDueParts(*plan);
    } else {
      PostReceives(transfer, *plan);
    }
  }
  FinishIfWhole(transfer);
}

Status RemotePipes::FailureOf(const Transfer& transfer, const Status& status) const {
  if (status.code() != Code::kInvalidUsage || transfer.sends) {
    return RemoteError("the connection to rank {} was lost", peer_rank());
  }
  return TooLong(*transfer.part);
}

// Returns whether all parts of the message have gone, or come.
bool RemotePipes::IsWhole(const Transfer& transfer) {
  return transfer.has_length && transfer.in_transport == 0 && !HasPartToCome(transfer);
}

void RemotePipes::Finish(Transfer* transfer, Status outcome) {
  Pipe* const pipe = transfer->pipe;
  PostedOperation* const part = transfer->part;
  const bool awaited = transfer->awaited;
  if (outcome.ok()) communicator_->CountMessage(part->moved_bytes);
  SetDue(transfer, false);
  (transfer->sends ? pipe->sends : pipe->receives).erase(part->descriptor.sequence);
  if (awaited && --awaited_ == 0) services_.network->EndMessages(communicator_->gang());
  DropIfUnused(pipe);
  // Not what the communicator has failed with: a send may have been received all the same.
  services_.finished->Finish(part, outcome);
}

// Ends a transfer: at once, or as soon as the transport lets go of it, for which the caller cancels
// the pipe.
void RemotePipes::End(Transfer* transfer, const Status& why) {
  if (transfer->in_transport == 0) return Finish(transfer, why);
  if (transfer->failure.ok()) transfer->failure = why;
}

// The end of the last message may drop the pipe, and the list with it.
void RemotePipes::EndAll(Transfers* transfers, const Status& why) {
  std::vector<Transfer*> all;
  for (auto& [name, transfer] : *transfers) all.push_back(&transfer);
  for (Transfer* const transfer : all) End(transfer, why);
}

// Ends all messages of a pipe, and drops what comes for them.
void RemotePipes::EndPipe(uint32_t id, const Status& why) {
  const auto pipe = pipes_.find(id);
  if (pipe == pipes_.end()) return;
  const uint64_t number = pipe->second.number;
  pipe->second.lengths.clear();
  pipe->second.ready.clear();
  EndAll(&pipe->second.sends, why);
  if (const auto left = pipes_.find(id); left != pipes_.end()) EndAll(&left->second.receives, why);
  if (const auto left = pipes_.find(id); left != pipes_.end()) DropIfUnused(&left->second);
  group_->ForgetAt(peer_rank(), number);
}

void RemotePipes::DropIfUnused(Pipe* pipe) {
  if (!pipe->empty()) return;
  const bool one_closed = pipe->closed_here != pipe->closed_there;
  if (!one_closed || ended_) {
    pipes_.erase(pipe->id);
    return;
  }
  // It may stay for long, and an empty table keeps the memory of the largest that it was.
  pipe->sends = Transfers();
  pipe->receives = Transfers();
  pipe->lengths = decltype(pipe->lengths)();
  pipe->ready = decltype(pipe->ready)();
}

// ---------------------------------------------------------------------------------------------
// Notes

void RemotePipes::Tell(const Transfer& transfer, Note::Kind kind, uint64_t value) {
  due_.push_back({transfer.part->descriptor.sequence, value, transfer.pipe->id, kind});
  if (std::exchange(sends_notes_, true)) return;
  communicator_->CallSoon([this] {
    sends_notes_ = false;
    SendNotes();
  });
}

void RemotePipes::SendNotes() {
  const Result<HostPlan*> plan = Plan();
  if (!plan.ok() || *plan == nullptr) return due_.clear();
  const int host = FabricHostOfPeer();
  const uint64_t number = HostGroup::NotesNumber(group_->roster().key, own_rank());
  for (size_t first = 0; first < due_.size(); first += kNotesAtOnce) {
    const Status paid = paid_notes_.Cover(
        notes_under_way_ + 1, [this](int64_t bytes) { return communicator_->Pay(bytes); });
    if (!paid.ok()) {
      group_->BreakSoon(paid);  // the caller may be ending a message
      break;
    }
    const size_t count = std::min(kNotesAtOnce, due_.size() - first);
    const auto begin = due_.begin() + static_cast<std::ptrdiff_t>(first);
    auto sent = std::make_unique<SentNotes>();
    sent->owner = this;
    sent->notes.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    transport::RailChoice rail =
        (*plan)->RailOf({.operation = number, .host = host}, count * sizeof(Note));
    // Notes are waited for. On a congested rail they would take longer than what they tell of.
    if (const auto fastest = backlogs_.Fastest()) {
      const auto by = [&](size_t one) { return one == *fastest; };
      rail = (*plan)->RailAmong(host, by).value_or(rail);
    }
    const Status posted = services_.cluster->transport().PostSend(
        (*plan)->PeerOf(host), rail, TagOf(number, notes_sent_),
        std::as_bytes(std::span(sent->notes)),
        {[](void* context, const Status&, size_t) {
           const std::unique_ptr<SentNotes> done(static_cast<SentNotes*>(context));
           --done->owner->in_transport_;
           --done->owner->notes_under_way_;
         },
         sent.get()});
    if (!posted.ok()) break;  // the peer's daemon is lost
    (void)sent.release();     // the completion has it
    ++in_transport_;
    ++notes_under_way_;
    ++notes_sent_;
  }
  due_.clear();
}

void RemotePipes::ExpectNotes(HostPlan* plan) {
  if (ended_ || std::exchange(expects_notes_, true)) return;
  const uint64_t number = HostGroup::NotesNumber(group_->roster().key, peer_rank());
  const Status posted = services_.cluster->transport().PostReceive(
      plan->PeerOf(FabricHostOfPeer()), TagOf(number, notes_came_),
      std::as_writable_bytes(std::span(notes_)),
      {[](void* context, const Status& status, size_t bytes) {
         static_cast<RemotePipes*>(context)->OnNotes(status, bytes);
       },
       this});
  expects_notes_ = posted.ok();
  if (posted.ok()) ++in_transport_;
}

void RemotePipes::OnNotes(const Status& status, size_t bytes) {
  --in_transport_;
  expects_notes_ = false;
  if (!status.ok()) return;
  ++notes_came_;
  // What follows may expect the next notes, which come in the same place.
  const auto first = notes_.begin();
  const std::vector<Note> came(first, first + static_cast<std::ptrdiff_t>(bytes / sizeof(Note)));
  for (const Note& note : came) {
    const auto pipe = pipes_.find(note.pipe);
    if (note.kind == Note::Kind::kReceived) {
      if (pipe != pipes_.end()) OnReceived(&pipe->second, note);
      continue;
    }
    Status refused;
    Pipe* const made = PipeOf(note.pipe, &refused);
    if (made == nullptr) return communicator_->Break(refused);
    if (note.kind == Note::Kind::kReady) {
      OnReady(made, note);
    } else {
      OnLength(made, note);
    }
  }
  const Result<HostPlan*> plan = Plan();
  if (plan.ok() && *plan != nullptr) ExpectNotes(*plan);
  while (!too_early_.empty() && too_early_.front().notes <= notes_came_) {
    const PipesClosedMessage closed = too_early_.front();
    too_early_.pop_front();
    OnPeerClosed(closed);
  }
}

void RemotePipes::OnReceived(Pipe* pipe, const Note& note) {
  const auto found = pipe->sends.find(note.name);
  if (found == pipe->sends.end()) return;
  Transfer& send = found->second;
  send.received = true;
  send.part->moved_bytes = send.length;
  if (note.value != static_cast<uint64_t>(Code::kOk) && send.failure.ok()) {
    send.failure = InvalidUsage(
        "a message of {} bytes is longer than what the other process receives", send.length);
  }
  // Parts that nobody receives go with their pipe, which is of no use any more.
  if (!send.failure.ok() && send.in_transport > 0) {
    return group_->ForgetAt(peer_rank(), pipe->number);
  }
  FinishIfWhole(&send);
}

// Notes the length of a message for its receive, which may have yet to come.
void RemotePipes::OnLength(Pipe* pipe, const Note& note) {
  if (pipe->closed_here || pipe->closed_there) return;
  const auto found = pipe->receives.find(note.name);
  if (found == pipe->receives.end()) {
    if (pipe->lengths.size() >= kMostMessagesOfPipe) {
      return communicator_->Break(
          RemoteError("more than {} messages wait in one pipe", kMostMessagesOfPipe));
    }
    pipe->lengths[note.name] = note.value;
    return;
  }
  SetLength(&found->second, note.value);
  const Result<HostPlan*> plan = Plan();
  if (plan.ok() && *plan != nullptr) GoOn(&found->second, *plan);
}

// Lets the other parts of a message go, which may have yet to be sent.
void RemotePipes::OnReady(Pipe* pipe, const Note& note) {
  if (pipe->closed_here || pipe->closed_there) return;
  const auto found = pipe->sends.find(note.name);
  if (found == pipe->sends.end() || found->second.next_part == 0) {
    if (pipe->ready.size() >= kMostMessagesOfPipe) {
      return communicator_->Break(
          RemoteError("more than {} receives wait in one pipe", kMostMessagesOfPipe));
    }
    pipe->ready.insert(note.name);
    return;
  }
  if (std::exchange(found->second.ready, true)) return;
  SetDue(&found->second, true);
  const Result<HostPlan*> plan = Plan();
  if (plan.ok() && *plan != nullptr) SendDueParts(*plan);
}

// Takes in the length of a message that is received. The transfer fails if it is too long.
void RemotePipes::SetLength(Transfer* receive, uint64_t length) {
  receive->has_length = true;
  receive->length = length;
  if (length <= receive->part->descriptor.count || !receive->failure.ok()) return;
  receive->failure = TooLong(*receive->part);
  Tell(*receive, Note::Kind::kReceived, static_cast<uint64_t>(Code::kInvalidUsage));
}

// ---------------------------------------------------------------------------------------------
// Ends

Status RemotePipes::Close(uint32_t id) {
  Status refused;
  Pipe* const pipe = PipeOf(id, &refused);
  if (pipe == nullptr) return refused;
  if (std::exchange(pipe->closed_here, true)) return Status::Ok();
  TellClosed({.pipe = id});
  EndPipe(id, RemoteError("rank {} has closed the pipe", own_rank()));
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
  if (!end_.ok()) TellClosed({.all = true});
}

// Tells the other daemon, behind all notes that are due.
void RemotePipes::TellClosed(PipesClosedMessage closed) {
  SendNotes();
  closed.communicator = group_->roster().key;
  closed.from = own_rank();
  closed.to = peer_rank();
  closed.notes = notes_sent_;
  group_->TellHostOf(peer_rank(), closed);
}

void RemotePipes::OnClosed(const PipesClosedMessage& closed) {
  if (closed.notes <= notes_came_ || !expects_notes_) return OnPeerClosed(closed);
  if (const Status paid = PayForPipe(); !paid.ok()) return communicator_->Break(paid);
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
  EndPipe(closed.pipe, ClosedThere(peer_rank()));
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
  TellClosed({.all = true});
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
    group_->ForgetAt(peer_rank(), HostGroup::NotesNumber(group_->roster().key, peer_rank()));
    return false;
  }
  const uint32_t id = found->first;
  next_end_ = id + 1;
  if (peer_gone_) {
    EndPipe(id, end_);
  } else {
    EndAll(&found->second.receives, end_);
  }
  if (id == UINT32_MAX) all_ended_ = true;
  return true;
}

}  // namespace harmonaize::daemon
