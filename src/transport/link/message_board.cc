#include "src/transport/link/message_board.h"

#include <utility>

namespace harmonaize::transport {
namespace {

// Buckets of the hash table at the beginning.
constexpr size_t kFirstBuckets = 1024;
// Most bytes that a pooled arrival keeps, and most that all of them keep.
constexpr size_t kKeptArrivalBytes = size_t{64} << 10;
constexpr size_t kAllKeptArrivalBytes = size_t{1} << 20;

// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

uint64_t Hash(PeerId peer, const MessageTag& tag) {
  const uint64_t place = uint64_t{tag.step} << 32 | tag.part;
  return Mix(tag.operation + Mix(place + 0x9e3779b97f4a7c15u * peer));
}

}  // namespace

MessageBoard::MessageBoard()
    : buckets_(std::make_unique<Bucket[]>(kFirstBuckets)),
      bucket_count_(kFirstBuckets),
      operations_(std::make_unique<OperationBucket[]>(kFirstBuckets)),
      operation_count_(kFirstBuckets) {}

MessageBoard::~MessageBoard() = default;

MessageBoard::Bucket& MessageBoard::BucketOf(PeerId peer, const MessageTag& tag) const {
  return buckets_[Hash(peer, tag) & (bucket_count_ - 1)];
}

MessageBoard::OperationBucket& MessageBoard::OperationBucketOf(PeerId peer,
                                                               uint64_t operation) const {
  return operations_[Mix(operation + 0x9e3779b97f4a7c15u * peer) & (operation_count_ - 1)];
}

Arrival* MessageBoard::ArrivalOf(PeerId peer, uint64_t operation) const {
  const auto& arrivals = OperationBucketOf(peer, operation).arrivals;
  for (auto* place = arrivals.Front(); place != nullptr; place = arrivals.After(place)) {
    Arrival* const arrival = place->owner;
    if (arrival->peer == peer && arrival->tag.operation == operation) return arrival;
  }
  return nullptr;
}

Request* MessageBoard::NewRequest(bool is_send, PeerId peer, const MessageTag& tag, std::byte* data,
                                  size_t size, Completion completion) {
  GrowOperationsIfCrowded();
  Request* request = requests_.Take();
  ++request->generation;
  request->state = is_send ? Request::State::kQueued : Request::State::kPosted;
  request->is_send = is_send;
  request->first_connection = false;
  request->peer = peer;
  request->tag = tag;
  request->data = data;
  request->size = size;
  request->total = is_send ? size : 0;
  request->moved = 0;
  request->channel = nullptr;
  request->remote_slot = 0;
  request->foreign = nullptr;
  request->completion = completion;
  ++under_way_;
  OperationBucketOf(peer, tag.operation).requests.PushBack(&request->in_operation);
  return request;
}

Request* MessageBoard::Find(uint64_t slot) const {
  const auto index = static_cast<uint32_t>(slot);
  Request* const request = requests_.At(index);
  if (request == nullptr || request->state == Request::State::kFree) return nullptr;
  return request->slot() == slot ? request : nullptr;
}

void MessageBoard::Post(Request* receive) {
  GrowIfCrowded();
  ++listed_;
  BucketOf(receive->peer, receive->tag).posted.PushBack(receive);
}

Request* MessageBoard::TakePosted(PeerId peer, const MessageTag& tag) {
  const IntrusiveList<Request>& posted = BucketOf(peer, tag).posted;
  for (Request* one = posted.Front(); one != nullptr; one = posted.After(one)) {
    if (one->peer != peer || one->tag != tag) continue;
    one->Unlink();
    --listed_;
    one->state = Request::State::kMoving;
    return one;
  }
  return nullptr;
}

Arrival* MessageBoard::NewArrival(PeerId peer, const MessageTag& tag, size_t total) {
  Arrival* arrival = arrivals_.Take();
  kept_bytes_ -= arrival->data.capacity();
  arrival->peer = peer;
  arrival->tag = tag;
  arrival->total = total;
  arrival->offered = false;
  arrival->channel = nullptr;
  arrival->remote_slot = 0;
  arrival->foreign = nullptr;
  return arrival;
}

void MessageBoard::AddArrival(Arrival* arrival) {
  GrowIfCrowded();
  GrowOperationsIfCrowded();
  ++listed_;
  ++arrivals_waiting_;
  arrival_bytes_ += arrival->data.size();
  BucketOf(arrival->peer, arrival->tag).arrivals.PushBack(arrival);
  OperationBucketOf(arrival->peer, arrival->tag.operation)
      .arrivals.PushBack(&arrival->in_operation);
}

void MessageBoard::Unlist(Arrival* arrival) {
  arrival->Unlink();
  arrival->in_operation.Unlink();
  --listed_;
  --arrivals_waiting_;
  arrival_bytes_ -= arrival->data.size();
}

Arrival* MessageBoard::TakeArrival(PeerId peer, const MessageTag& tag) {
  const IntrusiveList<Arrival>& arrivals = BucketOf(peer, tag).arrivals;
  for (Arrival* one = arrivals.Front(); one != nullptr; one = arrivals.After(one)) {
    if (one->peer != peer || one->tag != tag) continue;
    Unlist(one);
    return one;
  }
  return nullptr;
}

Arrival* MessageBoard::TakeOffer(PeerId peer, const MessageTag& tag, uint64_t remote_slot) {
  const IntrusiveList<Arrival>& arrivals = BucketOf(peer, tag).arrivals;
  for (Arrival* one = arrivals.Front(); one != nullptr; one = arrivals.After(one)) {
    if (!one->offered || one->peer != peer || one->tag != tag) continue;
    if (one->remote_slot != remote_slot) continue;
    Unlist(one);
    return one;
  }
  return nullptr;
}

void MessageBoard::Free(Arrival* arrival) {
  arrival->data.clear();
  const size_t capacity = arrival->data.capacity();
  const bool keep = capacity <= kKeptArrivalBytes && kept_bytes_ + capacity <= kAllKeptArrivalBytes;
  if (!keep) std::vector<std::byte>().swap(arrival->data);
  kept_bytes_ += arrival->data.capacity();
  arrivals_.GiveBack(arrival);
}

void MessageBoard::Complete(Request* request, Status status) {
  if (request->state == Request::State::kPosted && request->linked()) --listed_;
  request->state = Request::State::kFree;  // Find no longer finds it
  request->in_operation.Unlink();
  request->status = std::move(status);
  completed_.PushBack(request);
}

int MessageBoard::RunCompletions() {
  // Completions may post, and what that completes waits for the next round.
  IntrusiveList<Request> now;
  while (Request* request = completed_.PopFront()) now.PushBack(request);
  int count = 0;
  while (Request* request = now.PopFront()) {
    const Completion completion = request->completion;
    const Status status = std::move(request->status);
    request->status = Status::Ok();
    const size_t moved = request->moved;
    requests_.GiveBack(request);
    --under_way_;
    ++count;
    if (completion.call != nullptr) completion.call(completion.context, status, moved);
  }
  return count;
}

void MessageBoard::GrowIfCrowded() {
  if (listed_ < 2 * bucket_count_) return;
  // What may throw comes first.
  auto grown = std::make_unique<Bucket[]>(4 * bucket_count_);
  const std::unique_ptr<Bucket[]> old = std::exchange(buckets_, std::move(grown));
  const size_t old_count = bucket_count_;
  bucket_count_ *= 4;
  for (size_t i = 0; i < old_count; ++i) {
    while (Request* request = old[i].posted.PopFront()) {
      BucketOf(request->peer, request->tag).posted.PushBack(request);
    }
    while (Arrival* arrival = old[i].arrivals.PopFront()) {
      BucketOf(arrival->peer, arrival->tag).arrivals.PushBack(arrival);
    }
  }
}

void MessageBoard::GrowOperationsIfCrowded() {
  if (under_way_ + arrivals_waiting_ < 2 * operation_count_) return;
  auto grown = std::make_unique<OperationBucket[]>(4 * operation_count_);
  const std::unique_ptr<OperationBucket[]> old = std::exchange(operations_, std::move(grown));
  const size_t old_count = operation_count_;
  operation_count_ *= 4;
  for (size_t i = 0; i < old_count; ++i) {
    while (auto* place = old[i].requests.PopFront()) {
      const Request& request = *place->owner;
      OperationBucketOf(request.peer, request.tag.operation).requests.PushBack(place);
    }
    while (auto* place = old[i].arrivals.PopFront()) {
      const Arrival& arrival = *place->owner;
      OperationBucketOf(arrival.peer, arrival.tag.operation).arrivals.PushBack(place);
    }
  }
}

}  // namespace harmonaize::transport
