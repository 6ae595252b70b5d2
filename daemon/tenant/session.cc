#include "daemon/tenant/session.h"

#include <algorithm>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "daemon/tenant/rank_feed.h"
#include "src/base/clock.h"
#include "src/base/futex.h"
#include "src/base/wait_estimate.h"

namespace harmonaize::daemon {

Session::Session(uint32_t id, std::shared_ptr<Connection> connection, std::string program,
                 JobClaim job_claim, Tenant* tenant, Mapping segment, FileDescriptor doorbell,
                 Holdings holdings)
    : id_(id),
      connection_(std::move(connection)),
      program_(std::move(program)),
      job_claim_(std::move(job_claim)),
      tenant_(tenant),
      mapping_(std::move(segment)),
      segment_(reinterpret_cast<SessionSegment*>(mapping_.data())),
      doorbell_(std::move(doorbell)),
      holdings_(std::move(holdings)),
      members_(kMaxMembers),
      streams_(kStreamSlots),
      host_stream_open_(kMaxHostStreams, false) {
  free_members_.reserve(kMaxMembers);
  for (uint32_t i = kMaxMembers; i > 0; --i) free_members_.push_back(i - 1);
}

Session::~Session() {
  // Where the daemon ends, parts may still wait: the tenant's thread destroys them later, and must
  // not reach what the engine counts.
  if (outstanding_ > 0) {
    for (const std::unique_ptr<PostedOperation>& operation : pool_) operation->waiting.Reset();
  }
  /// The parts of a session that a tenant can make slow to destroy.
  struct Remains {
    Holding memory;
    Mapping mapping;
    std::vector<std::unique_ptr<PostedOperation>> pool;
  };
  // If they cannot be handed over, they are destroyed here.
  GuardedAndLogged("the end of a session", [this] {
    auto remains = std::make_shared<Remains>();
    remains->mapping = std::move(mapping_);
    remains->pool = std::move(pool_);
    remains->memory = std::move(holdings_.memory);
    connection_->TakeAlong(std::move(remains));
  });
}

bool Session::HasDescriptors() const {
  return segment_->ring.tail.load(std::memory_order_seq_cst) != head_;
}

bool Session::TakeDescriptor(OperationDescriptor* descriptor) {
  SubmissionRing& ring = segment_->ring;
  const uint32_t tail = ring.tail.load(std::memory_order_acquire);
  if (tail == head_) return false;
  if (tail - head_ > kRingEntries) {
    ring_broken_ = true;
    return false;
  }
  *descriptor = ring.entries[head_ % kRingEntries];
  ++head_;
  return true;
}

void Session::FreeTaken() {
  SubmissionRing& ring = segment_->ring;
  // The tenant may overwrite the entries once it sees this. Sequentially consistent, as its flag
  // and its look at the head are: either it sees that there is room, or we see that it sleeps.
  ring.head.store(head_, std::memory_order_seq_cst);
  if (ring.producer_waiting.load(std::memory_order_seq_cst) == 0) return;
  if (ring.tail.load(std::memory_order_acquire) - head_ > kRingEntries / 2) return;
  if (ring.producer_waiting.exchange(0, std::memory_order_seq_cst) == 0) return;
  FutexWakeShared(&ring.head, kMostWoken);
  ++wakes_;
}

void Session::SetCrowded(bool crowded) {
  segment_->header.crowded.store(crowded ? 1 : 0, std::memory_order_relaxed);
}

void Session::NoteOtherHosts() {
  across_hosts_ = true;
  segment_->header.sleepers.store(kSleepersAcrossHosts, std::memory_order_relaxed);
}

void Session::SetConsumerWaiting(bool waiting) {
  segment_->ring.consumer_waiting.store(waiting ? 1 : 0, std::memory_order_seq_cst);
}

Result<PostedOperation*> Session::Admit(const OperationDescriptor& descriptor) {
  Member* member = FindMember(descriptor.member);
  if (member == nullptr || member->communicator == nullptr || member->gone) {
    return InvalidArgument("a descriptor for member {}, which is no rank that is ready",
                           descriptor.member);
  }
  if (static_cast<int>(descriptor.collective) >= kCollectiveCount ||
      static_cast<int>(descriptor.type) >= kDataTypeCount ||
      static_cast<int>(descriptor.op) >= kReduceOperatorCount) {
    return InvalidArgument("a descriptor with an unknown collective, type or operator");
  }
  if ((descriptor.flags & kPipeMessage) != 0) return AdmitMessage(descriptor, member);
  HZ_RETURN_IF_ERROR(CheckStream(descriptor, member));
  if (!IsPointToPoint(descriptor.collective)) ++member->next_sequence;
  HZ_ASSIGN_OR_RETURN(PostedOperation* const operation, NewOperation(descriptor, member));
  operation->stream = streams_[descriptor.stream].get();
  operation->invalid = FindBuffers(operation);
  ++member->posted[static_cast<size_t>(descriptor.collective)];
  return operation;
}

// Checks that the operation is the next one of its stream, and of its member.
Status Session::CheckStream(const OperationDescriptor& descriptor, Member* member) const {
  const bool own_queue = descriptor.stream == descriptor.member;
  const bool host_stream = descriptor.stream >= kMaxMembers && descriptor.stream < kStreamSlots &&
                           host_stream_open_[descriptor.stream - kMaxMembers];
  if (!own_queue && !host_stream) {
    return InvalidArgument("a descriptor for stream {}, which is not open", descriptor.stream);
  }
  if (!streams_[descriptor.stream]->Accepts(descriptor.position)) {
    return InvalidArgument("a descriptor for position {} of stream {}, out of turn",
                           descriptor.position, descriptor.stream);
  }
  if (!IsPointToPoint(descriptor.collective) && descriptor.sequence != member->next_sequence) {
    return InvalidArgument("a descriptor with sequence number {}, out of turn",
                           descriptor.sequence);
  }
  return Status::Ok();
}

Result<PostedOperation*> Session::NewOperation(const OperationDescriptor& descriptor,
                                               Member* member) {
  if (free_operations_.empty()) {
    HZ_RETURN_IF_ERROR(holdings_.memory.Add(sizeof(PostedOperation)));
    pool_.push_back(std::make_unique<PostedOperation>());
    free_operations_.push_back(pool_.back().get());
  }
  PostedOperation* const operation = free_operations_.back();
  free_operations_.pop_back();
  operation->descriptor = descriptor;
  operation->member = member;
  operation->arrived_ns = MonotonicNanoseconds();
  ++outstanding_;
  ++member->outstanding;
  return operation;
}

// A message whose end cannot be told is no message of an honest client. One whose buffer is not
// there ends with an error.
Result<PostedOperation*> Session::AdmitMessage(const OperationDescriptor& descriptor,
                                               Member* member) {
  const bool sends = descriptor.collective == Collective::kSend;
  const BufferReference& place = sends ? descriptor.receive : descriptor.send;
  Region* const region = FindRegion(place.region);
  std::byte* const word =
      region == nullptr ? nullptr : region->At(place.offset, sizeof(MessageOutcome));
  const bool sound = IsPointToPoint(descriptor.collective) && descriptor.type == DataType::kInt8 &&
                     descriptor.scalar <= UINT32_MAX &&
                     (descriptor.flags & ~kNotAwaited) == kPipeMessage;
  if (!sound || word == nullptr || place.offset % alignof(MessageOutcome) != 0) {
    return InvalidArgument("a descriptor of a message that no client writes");
  }
  HZ_ASSIGN_OR_RETURN(PostedOperation* const message, NewOperation(descriptor, member));
  message->outcome_word = reinterpret_cast<MessageOutcome*>(word);
  message->outcome_region = region;
  region->AddUse();
  message->invalid = FindBuffers(message);
  return message;
}

Status Session::FindBuffers(PostedOperation* operation) {
  const OperationDescriptor& descriptor = operation->descriptor;
  const int rank = operation->member->rank;
  const int ranks = operation->member->ranks;
  const bool needs_root = HasRoot(descriptor.collective) || IsPointToPoint(descriptor.collective);
  if (needs_root && (descriptor.root < 0 || descriptor.root >= ranks)) {
    return InvalidArgument("rank {} names rank {}, which is not in a communicator of {} ranks",
                           rank, descriptor.root, ranks);
  }
  const BufferBlocks blocks = BlocksOf(descriptor.collective, ranks, rank, descriptor.root);
  const uint64_t element = DataTypeSize(descriptor.type);
  uint64_t block = 0;
  uint64_t largest = 0;
  if (__builtin_mul_overflow(descriptor.count, element, &block) ||
      __builtin_mul_overflow(block, static_cast<uint64_t>(ranks), &largest)) {
    return InvalidArgument("rank {}: {} elements are more than an address can count", rank,
                           descriptor.count);
  }
  // Windows are found when the rank has filled them, see UseWindow.
  const auto bytes_of = [&](uint64_t count, OperationFlags window) {
    const bool windowed = HasWindows(*operation) && (descriptor.flags & window) != 0;
    return windowed ? 0 : block * count;
  };
  const Status send = FindBuffer(descriptor.send, bytes_of(blocks.send, kSendWindow),
                                 &operation->send, &operation->send_region);
  if (!send.ok()) {
    return InvalidArgument("the send buffer of rank {}: {}", rank, send.message());
  }
  const Status receive = FindBuffer(descriptor.receive, bytes_of(blocks.receive, kReceiveWindow),
                                    &operation->receive, &operation->receive_region);
  if (receive.ok()) return receive;
  return InvalidArgument("the receive buffer of rank {}: {}", rank, receive.message());
}

Status Session::FindBuffer(const BufferReference& reference, uint64_t bytes, MemoryView* buffer,
                           Region** region) {
  *buffer = MemoryView{};
  if (bytes == 0) return Status::Ok();
  if (reference.region == kNoBuffer) {
    return InvalidArgument("its {} bytes at {:#x} are not mapped, or are protected", bytes,
                           reference.offset);
  }
  Region* found = FindRegion(reference.region);
  std::byte* address = found == nullptr ? nullptr : found->At(reference.offset, bytes);
  if (address == nullptr) {
    return InvalidArgument("{} bytes at offset {} do not lie in region {}", bytes, reference.offset,
                           reference.region);
  }
  *buffer = MemoryView{address};
  *region = found;
  found->AddUse();
  return Status::Ok();
}

Result<std::byte*> Session::UseWindow(PostedOperation* part, const BufferReference& place,
                                      uint64_t slot_bytes, uint64_t slots) {
  uint64_t bytes = 0;
  Region* const region = FindRegion(place.region);
  const bool countable = !__builtin_mul_overflow(slot_bytes, slots, &bytes);
  std::byte* const first =
      region == nullptr || !countable ? nullptr : region->At(place.offset, bytes);
  // A whole buffer of the part lies in a region that is in use already.
  Region** const held = part->send_region == nullptr ? &part->send_region : &part->receive_region;
  if (first == nullptr || place.offset % 64 != 0 || *held != nullptr) {
    return InvalidArgument(
        "the window of rank {}: {} slots of {} bytes at offset {} do not lie in region {}",
        part->member->rank, slots, slot_bytes, place.offset, place.region);
  }
  *held = region;
  region->AddUse();
  return first;
}

void Session::Retire(PostedOperation* operation) {
  for (Region* region :
       {operation->send_region, operation->receive_region, operation->outcome_region}) {
    if (region != nullptr && region->DropUse()) region->TakeOnIdle()();
  }
  --outstanding_;
  ++operations_;
  Member* const member = operation->member;
  *operation = PostedOperation{};
  free_operations_.push_back(operation);
  const bool idle = --member->outstanding == 0;
  if (idle && member->on_idle != nullptr) std::exchange(member->on_idle, nullptr)();
}

void Session::PublishRetired() {
  if (std::exchange(published_operations_, operations_) == operations_) return;
  StreamSlot& retired = segment_->retired;
  // Sequentially consistent: see MarkAwaited.
  retired.completed.store(operations_, std::memory_order_seq_cst);
  if (!TakeReachedMark(&retired, operations_)) return;
  FutexWakeShared(&retired.awaited, kMostWoken);
  ++wakes_;
}

Member* Session::AddMember() {
  if (free_members_.empty()) return nullptr;
  const uint32_t index = free_members_.back();
  // The steps that may throw come first: the index is still free then.
  auto member = std::make_unique<Member>();
  if (streams_[index] == nullptr) {
    streams_[index] = std::make_unique<StreamQueue>(&segment_->streams[index]);
  }
  free_members_.pop_back();
  member->session = this;
  member->index = index;
  member->slot = &segment_->members[index];
  member->header = &segment_->header;
  member->slot->error.Set("");
  member->slot->notice.Set("");
  member->slot->stock_nccl.Clear();
  member->slot->state.store(static_cast<uint32_t>(MemberState::kForming),
                            std::memory_order_release);
  streams_[index]->Reset();
  members_[index] = std::move(member);
  ++MembersThatWait(Looking::kAsItPays);
  TellLooking();
  return members_[index].get();
}

Member* Session::FindMember(uint32_t index) {
  return index < kMaxMembers ? members_[index].get() : nullptr;
}

void Session::RemoveMember(Member* member) {
  const uint32_t index = member->index;
  member->slot->state.store(static_cast<uint32_t>(MemberState::kUnused), std::memory_order_release);
  for (const uint32_t id : member->offered_regions) {
    if (Region* const region = FindRegion(id)) region->offered_by().erase(index);
  }
  --MembersThatWait(member->looking);
  members_[index].reset();
  free_members_.push_back(index);
  TellLooking();
}

void Session::SetLooking(Member* member, Looking looking) {
  --MembersThatWait(std::exchange(member->looking, looking));
  ++MembersThatWait(looking);
  TellLooking();
}

// Threads sleep at once only if no member of the session minds.
void Session::TellLooking() {
  const bool all_sleep = ranks() > 0 && MembersThatWait(Looking::kNever) == ranks();
  Looking all = all_sleep ? Looking::kNever : Looking::kAsItPays;
  if (MembersThatWait(Looking::kForLong) > 0) all = Looking::kForLong;
  segment_->header.looking.store(static_cast<uint32_t>(all), std::memory_order_relaxed);
}

std::vector<Member*> Session::Members() {
  std::vector<Member*> all;
  for (const std::unique_ptr<Member>& member : members_) {
    if (member != nullptr) all.push_back(member.get());
  }
  return all;
}

Result<Session::OpenedStream> Session::OpenStream() {
  const auto unused = std::find(host_stream_open_.begin(), host_stream_open_.end(), false);
  if (unused == host_stream_open_.end()) {
    return InvalidUsage("this process already has {} host streams, which is as many as it may",
                        kMaxHostStreams);
  }
  const auto number = static_cast<uint32_t>(unused - host_stream_open_.begin());
  const uint32_t slot = kMaxMembers + number;
  host_stream_open_[number] = true;
  if (streams_[slot] == nullptr) {
    streams_[slot] = std::make_unique<StreamQueue>(&segment_->streams[slot]);
  }
  // Positions continue where the slot's previous stream left off. Ranks remember up to which
  // position they used that stream, and must find it completed.
  return OpenedStream{slot, streams_[slot]->completed()};
}

Status Session::CloseStream(uint32_t stream) {
  if (stream < kMaxMembers || stream >= kStreamSlots || !host_stream_open_[stream - kMaxMembers]) {
    return InvalidArgument("stream {} is not open", stream);
  }
  if (!streams_[stream]->idle()) return InvalidUsage("stream {} has operations queued", stream);
  host_stream_open_[stream - kMaxMembers] = false;
  return Status::Ok();
}

Result<uint32_t> Session::AddRegion(std::shared_ptr<RegionMemory> memory) {
  // A number is not used again: operations under way hold on to the region that has it.
  if (next_region_ == kNoBuffer) {
    return InvalidUsage("this process has registered memory {} times, which is as often as it may",
                        kNoBuffer);
  }
  const uint32_t id = next_region_++;
  regions_[id] = std::make_unique<Region>(id, std::move(memory));
  return id;
}

Status Session::GiveUpRegion(uint32_t id) {
  Region* const region = FindRegion(id);
  if (region == nullptr) return InvalidArgument("region {} is not registered", id);
  if (region->idle()) {
    RemoveRegion(id);
  } else {
    region->SetOnIdle([this, id] { RemoveRegion(id); });
  }
  return Status::Ok();
}

Status Session::OfferRegion(Member* member, uint32_t id) {
  Region* const region = FindRegion(id);
  if (region == nullptr) return InvalidArgument("region {} is not registered", id);
  if (member->Offers(id)) return Status::Ok();
  region->offered_by().insert(member->index);
  Status offered = member->Offer(id);
  if (!offered.ok()) region->offered_by().erase(member->index);
  return offered;
}

// Goes to the members that offer the region alone: a process may have thousands of others.
void Session::RemoveRegion(uint32_t id) {
  const auto found = regions_.find(id);
  for (const uint32_t index : found->second->offered_by()) {
    Member* const member = FindMember(index);
    if (member == nullptr || !member->TakeBackOffer(id) || member->communicator == nullptr)
      continue;
    if (on_region_gone_ != nullptr) on_region_gone_(*member, id);
  }
  regions_.erase(found);
}

bool Session::HasLostMemory() const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [](const auto& region) { return region.second->lost(); });
}

Region* Session::FindRegion(uint32_t id) {
  const auto found = regions_.find(id);
  return found == regions_.end() ? nullptr : found->second.get();
}

}  // namespace harmonaize::daemon
