#include "src/client/operation/posting.h"

#include <algorithm>
#include <utility>

#include "src/client/inline/turns.h"
#include "src/client/operation/copier.h"

namespace harmonaize {
namespace {

OperationDescriptor Describe(const PreparedOperation& prepared, const QueueUse& queue) {
  const Operation& operation = *prepared.operation;
  OperationDescriptor descriptor;
  if (!IsPointToPoint(operation.collective)) {
    descriptor.sequence = operation.communicator->NextSequence();
  } else if (prepared.window_flags != 0) {
    descriptor.sequence = operation.communicator->NextWindowOf(operation.collective);
  }
  descriptor.count = operation.count;
  descriptor.position = queue.position;
  descriptor.scalar = operation.scalar;
  descriptor.send = prepared.send.reference;
  descriptor.receive = prepared.receive.reference;
  descriptor.member = operation.communicator->member();
  descriptor.stream = queue.index();
  descriptor.root = operation.root;
  descriptor.collective = operation.collective;
  descriptor.type = operation.type;
  descriptor.op = operation.op;
  descriptor.flags = prepared.window_flags;
  return descriptor;
}

/// Copies out what is done, so that a stream about which nobody asks does not fill: two positions
/// for each that comes. What goes through windows is left to the Copier.
void MakeRoom(CopyQueue* copies) {
  for (int step = 0; step < 2 && !copies->has_windows(); ++step) {
    if (!copies->Step()) return;
  }
}

}  // namespace

Status Posting::Post(std::vector<PreparedOperation>* prepared, std::vector<QueueUse>* queues) {
  prepared_ = prepared;
  queues_ = queues;
  descriptors_.clear();
  const bool at_once = session().room().Take(prepared_->size());
  return at_once ? PostAtOnce() : PostWithLittleRoom();
}

// Posts all operations. Requires: room has been taken for all of them.
Status Posting::PostAtOnce() {
  Orders orders;
  const Status positions = TakePositions(&orders);
  if (!positions.ok()) {
    session().room().GiveBack(prepared_->size());
    return positions;
  }
  DescribeAll();
  AddCopies(false);
  const Status submitted = session().Submit(descriptors_);
  if (!submitted.ok()) DropCopies();
  return submitted;
}

// Posts one operation after the other as room allows. If the caller must not wait, posts all or
// none.
Status Posting::PostWithLittleRoom() {
  const std::vector<Session::QueueShare> shares = SortByTurn();
  HZ_RETURN_IF_ERROR(CheckLanes(shares));
  const bool may_wait = std::all_of(queues_->begin(), queues_->end(), [](const QueueUse& queue) {
    return queue.communicator->options().blocking;
  });
  if (!may_wait) return session().TakeRoomInWindows(shares) ? PostAtOnce() : NoRoom();
  Orders orders;
  HZ_RETURN_IF_ERROR(TakePositions(&orders));
  DescribeAll();
  AddCopies(true);
  const Status submitted = session().SubmitInTurns(descriptors_, shares);
  if (!submitted.ok()) DropCopies();
  return submitted;
}

// Sorts the operations by their turns. Returns the share of each queue.
std::vector<Session::QueueShare> Posting::SortByTurn() {
  std::vector<const Operation*> operations;
  for (const PreparedOperation& prepared : *prepared_) operations.push_back(prepared.operation);
  const Turns turns = Turns::Of(operations);
  std::vector<Session::QueueShare> shares;
  std::vector<PreparedOperation> sorted;
  for (const size_t place : turns.order) {
    sorted.push_back((*prepared_)[place]);
    const uint32_t stream = (*queues_)[sorted.back().queue].index();
    auto share = std::find_if(shares.begin(), shares.end(),
                              [stream](const auto& one) { return one.stream == stream; });
    if (share == shares.end()) share = shares.insert(share, {.stream = stream});
    ++share->operations;
    if (turns.turns[place] == 0) ++share->lanes;
  }
  prepared_->swap(sorted);
  return shares;
}

// Operations of one lane can be posted one after the other; those of several lanes need room at
// once.
Status Posting::CheckLanes(std::span<const Session::QueueShare> shares) const {
  uint64_t lanes = 0;
  for (const Session::QueueShare& share : shares) lanes += share.lanes;
  const uint64_t limit = session().room().limit();
  if (lanes <= limit) return Status::Ok();
  return InvalidUsage(
      "the group has {} operations that must be under way at the same time, and the provider "
      "allows a process {} (quota.outstanding_operations): divide the group, or have fewer ranks "
      "in a process",
      lanes, limit);
}

Status Posting::NoRoom() const {
  return InvalidUsage(
      "{} operations of a group with a non-blocking communicator find no room among the {} that "
      "the provider allows a process to have under way (quota.outstanding_operations): divide "
      "the group, or call again when operations before it have ended",
      prepared_->size(), session().room().limit());
}

void Posting::DescribeAll() {
  for (const PreparedOperation& prepared : *prepared_) {
    QueueUse& queue = (*queues_)[prepared.queue];
    queue.last_descriptor = descriptors_.size();
    descriptors_.push_back(Describe(prepared, queue));
    if (prepared.window_flags != 0) {
      queue.batch->AddWindow(*prepared.operation, descriptors_.back());
    }
  }
  for (const QueueUse& queue : *queues_) MarkLast(queue);
}

// Hands the private data to the queues, before the operations are posted, so that nothing is under
// way which nobody copies. The Copier gets what no other thread waits for; `waits`: the caller
// waits in the middle of posting.
void Posting::AddCopies(bool waits) {
  for (QueueUse& queue : *queues_) {
    if (queue.batch == nullptr) continue;
    queue.batch->SetPosition(queue.position);
    MakeRoom(queue.copies.get());
    queue.copies->Add(std::move(queue.batch));
    if (queue.copies->has_windows() && (waits || !queue.waited_for())) {
      Copier::Get().Attend(queue.copies);
    }
  }
}

// Requires: the daemon is gone, which is the only reason why operations cannot be submitted.
void Posting::DropCopies() {
  for (const QueueUse& queue : *queues_) {
    if (queue.copies != nullptr) static_cast<void>(queue.copies->Drop(queue.communicator));
  }
}

// Takes a position in each stream. Communicators that share a stream share its position too.
Status Posting::TakePositions(Orders* orders) {
  std::vector<HostStream*> streams;
  for (const QueueUse& queue : *queues_) {
    if (queue.stream != nullptr) streams.push_back(queue.stream);
  }
  // All threads lock in one order, so that two launches on the same streams cannot deadlock.
  std::sort(streams.begin(), streams.end());
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  HZ_RETURN_IF_ERROR(LockWithRoom(streams, orders));
  for (HostStream* stream : streams) {
    const uint64_t position = stream->NextPosition();
    for (QueueUse& queue : *queues_) {
      if (queue.stream != stream) continue;
      queue.position = position;
      queue.communicator->NoteStreamUse(stream, position);
    }
  }
  for (QueueUse& queue : *queues_) {
    if (queue.stream == nullptr) queue.position = queue.communicator->NextOwnPosition();
  }
  return Status::Ok();
}

// Locks all streams when they have room. No thread waits for room with a stream locked.
Status Posting::LockWithRoom(std::span<HostStream* const> streams, Orders* orders) {
  while (true) {
    for (HostStream* stream : streams) orders->emplace_back(stream->order());
    const auto full = std::find_if(streams.begin(), streams.end(),
                                   [](HostStream* stream) { return !stream->HasRoom(); });
    if (full == streams.end()) return Status::Ok();
    orders->clear();
    HZ_RETURN_IF_ERROR((*full)->AwaitRoom([this] { return CheckNoneAborted(); }));
  }
}

Status Posting::CheckNoneAborted() const {
  for (const QueueUse& queue : *queues_) HZ_RETURN_IF_ERROR(queue.communicator->CheckNotAborted());
  return Status::Ok();
}

// Flags the last descriptor of the queue's position. If several communicators share a stream, it
// is the last one of them all.
void Posting::MarkLast(const QueueUse& queue) {
  size_t last = queue.last_descriptor;
  if (queue.stream != nullptr) {
    for (const QueueUse& other : *queues_) {
      if (other.stream == queue.stream) last = std::max(last, other.last_descriptor);
    }
  }
  descriptors_[last].flags |= kLastOfPosition;
}

}  // namespace harmonaize
