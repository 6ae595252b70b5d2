#include "src/client/launch.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "src/client/buffer_probe.h"
#include "src/client/device_memory.h"
#include "src/client/inline_launch.h"
#include "src/client/inline_quick.h"
#include "src/client/memory.h"
#include "src/client/slice_copy.h"
#include "src/client/staging.h"

namespace harmonaize {
namespace {

/// One buffer of one operation, as the daemon will find it.
struct PreparedBuffer {
  BufferReference reference;
  std::byte* staging = nullptr;  // borrowed from the pool, when set
  bool nested = false;           // in the staging of the operation's other buffer
  uint64_t bytes = 0;
};

struct PreparedOperation {
  const Operation* operation;
  PreparedBuffer send;
  PreparedBuffer receive;
};

/// An ordered queue that this launch appends to: a host stream's, or a communicator's own.
struct QueueUse {
  Communicator* communicator;  // of its own queue, or the last one to use the stream
  HostStream* stream;
  uint64_t position = 0;
  size_t last_descriptor = 0;
};

class Launch {
 public:
  static Launch& OfThisThread();

  /// From where TryQuickly has left them, on communicators that are usable.
  Status Run(std::span<const Operation> operations, const QuickAttempt& attempt) {
    HZ_RETURN_IF_ERROR(inline_launch_.Run(operations, attempt, &offloaded_));
    return offloaded_.empty() ? Status::Ok() : Offload(offloaded_);
  }

 private:
  Status Offload(std::span<const Operation> operations) {
    Clear();
    Status status = Prepare(operations);
    if (status.ok()) status = Post();
    if (status.ok() && slice_copy_) status = slice_copy_->Run();
    if (status.ok()) status = Wait();
    ReturnStaging(status.ok());
    return status;
  }

  void Clear() {
    prepared_.clear();
    queues_.clear();
    descriptors_.clear();
    staged_bytes_ = 0;
    copy_out_ = false;
    copies_along_ = false;
    slice_copy_.reset();
  }

  QueueUse* FindQueue(const Operation& operation) {
    // The last operation's queue is nearly always this one's too.
    for (auto queue = queues_.rbegin(); queue != queues_.rend(); ++queue) {
      if (queue->communicator == operation.communicator && queue->stream == operation.stream) {
        return &*queue;
      }
    }
    return nullptr;
  }

  Status Prepare(std::span<const Operation> operations) {
    for (const Operation& operation : operations) {
      if (FindQueue(operation) == nullptr) {
        queues_.push_back({operation.communicator, operation.stream});
      }
      prepared_.push_back({&operation, {}, {}});
      PreparedOperation& prepared = prepared_.back();
      const Communicator& communicator = *operation.communicator;
      const BufferBlocks blocks =
          BlocksOf(operation.collective, communicator.ranks(), communicator.rank(), operation.root);
      HZ_RETURN_IF_ERROR(SizeOf(operation, blocks.send, &prepared.send.bytes));
      HZ_RETURN_IF_ERROR(SizeOf(operation, blocks.receive, &prepared.receive.bytes));
      HZ_RETURN_IF_ERROR(LocateBoth(&prepared));
      copies_along_ = operations.size() == 1 && MayCopyAlong(operation);
      if (prepared.send.staging != nullptr && !copies_along_) {
        std::memcpy(prepared.send.staging, operation.send, prepared.send.bytes);
      }
    }
    return Status::Ok();
  }

  /// Of one that is large, between hosts, and waited for: what is staged is copied while the daemon
  /// carries it.
  bool MayCopyAlong(const Operation& operation) const {
    return staged_bytes_ >= kCopyAlongBytes && operation.communicator->across_hosts() &&
           !IsPointToPoint(operation.collective) && IsWaitedFor(operation);
  }

  static Status SizeOf(const Operation& operation, uint64_t blocks, uint64_t* bytes) {
    const uint64_t element = DataTypeSize(operation.type);
    if (__builtin_mul_overflow(operation.count, element, bytes) ||
        __builtin_mul_overflow(*bytes, blocks, bytes) || *bytes > (uint64_t{1} << 62)) {
      return InvalidArgument("{} of {} elements of {} needs more bytes than an address can count",
                             CollectiveName(operation.collective), operation.count,
                             DataTypeName(operation.type));
    }
    return Status::Ok();
  }

  /// What is staged is in place, where the collective allows it: that is half the memory, less to
  /// go through caches, and the daemon need not copy what stays with the rank.
  Status LocateBoth(PreparedOperation* prepared) {
    const Operation& operation = *prepared->operation;
    const bool send_is_larger = prepared->send.bytes > prepared->receive.bytes;
    PreparedBuffer* const larger = send_is_larger ? &prepared->send : &prepared->receive;
    PreparedBuffer* const smaller = send_is_larger ? &prepared->receive : &prepared->send;
    const void* const of_larger = send_is_larger ? operation.send : operation.receive;
    const void* const of_smaller = send_is_larger ? operation.receive : operation.send;
    HZ_RETURN_IF_ERROR(Locate(operation, of_larger, larger, nullptr));
    const bool nests = larger->staging != nullptr && MayBeInPlace(operation);
    return Locate(operation, of_smaller, smaller, nests ? larger : nullptr);
  }

  /// An all-to-all that is in place has to exchange, which takes longer.
  static bool MayBeInPlace(const Operation& operation) {
    return operation.collective != Collective::kAllToAll || operation.send == operation.receive;
  }

  /// `other`: the operation's other buffer, when it is staged and this one may be in place there.
  Status Locate(const Operation& operation, const void* address, PreparedBuffer* buffer,
                const PreparedBuffer* other) {
    if (buffer->bytes == 0) return Status::Ok();
    Session& session = operation.communicator->session();
    Result<BufferReference> found = RegionTable::Get().Locate(session, address, buffer->bytes);
    if (!found.ok()) return found.status();
    if (found->region != kNoBuffer) {
      buffer->reference = *found;
      return Status::Ok();
    }
    if (IsDeviceMemory(address)) {
      return InvalidArgument(
          "{}: {} is GPU memory, which Harmonaize does not carry yet: pass host memory, or run the "
          "program with stock NCCL (HARMONAIZE_FALLBACK=nccl where no daemon listens)",
          CollectiveName(operation.collective), address);
    }
    if (IsThere(operation, address, buffer->bytes)) return Stage(operation, buffer, other);
    // The daemon tells all ranks, which would wait for this one otherwise.
    buffer->reference = {.offset = reinterpret_cast<uint64_t>(address)};
    return Status::Ok();
  }

  /// The call returns when the operation is done.
  static bool IsWaitedFor(const Operation& operation) {
    return operation.stream == nullptr && operation.communicator->options().blocking;
  }

  bool IsThere(const Operation& operation, const void* address, uint64_t bytes) {
    if (address == operation.receive) return probe_.Writable(operation.receive, bytes);
    return probe_.Readable(address, bytes);
  }

  Status Stage(const Operation& operation, PreparedBuffer* buffer, const PreparedBuffer* other) {
    if (other != nullptr) {
      Nest(operation.communicator->rank(), *other, buffer);
      return Status::Ok();
    }
    // What is copied now must already be what the stream's earlier operations leave behind, and
    // what comes back can only be copied once the operation is done: so this one is not
    // asynchronous.
    if (operation.stream != nullptr) HZ_RETURN_IF_ERROR(operation.stream->Drain());
    Result<std::byte*> staging = StagingPool::Get().Acquire(buffer->bytes);
    if (!staging.ok()) return staging.status();
    Result<BufferReference> found =
        RegionTable::Get().Locate(operation.communicator->session(), *staging, buffer->bytes);
    if (!found.ok()) {
      StagingPool::Get().Release(*staging, buffer->bytes);
      return found.status();
    }
    // One of a session before, whose descriptor the program has closed since: it is of no more use.
    if (found->region == kNoBuffer) return Stage(operation, buffer, other);
    buffer->staging = *staging;
    buffer->reference = *found;
    staged_bytes_ += buffer->bytes;
    copy_out_ = true;
    return Status::Ok();
  }

  /// As NCCL defines in place: where one buffer holds a block of each rank, the other is this
  /// one's.
  static void Nest(int rank, const PreparedBuffer& other, PreparedBuffer* buffer) {
    const uint64_t offset =
        other.bytes == buffer->bytes ? 0 : static_cast<uint64_t>(rank) * buffer->bytes;
    buffer->nested = true;
    buffer->staging = other.staging + offset;
    buffer->reference = other.reference;
    buffer->reference.offset += offset;
  }

  Status Post() {
    std::vector<std::unique_lock<std::mutex>> orders;
    HZ_RETURN_IF_ERROR(TakePositions(&orders));
    for (const PreparedOperation& prepared : prepared_) {
      QueueUse* queue = FindQueue(*prepared.operation);
      queue->last_descriptor = descriptors_.size();
      descriptors_.push_back(Describe(prepared, *queue));
    }
    for (const QueueUse& queue : queues_) MarkLast(queue);
    if (copies_along_) PrepareSliceCopy(prepared_.front(), &descriptors_.front());
    return queues_.front().communicator->session().Submit(descriptors_);
  }

  void PrepareSliceCopy(const PreparedOperation& prepared, OperationDescriptor* descriptor) {
    const Operation& operation = *prepared.operation;
    const uint64_t element = DataTypeSize(operation.type);
    const uint64_t unit = operation.count * element;
    const SlicedBuffer input{.from = static_cast<const std::byte*>(operation.send),
                             .to = prepared.send.staging,
                             .units = prepared.send.bytes / unit,
                             .unit_bytes = unit};
    // Only what is staged is copied.
    std::byte* const own = static_cast<std::byte*>(operation.receive);
    const SlicedBuffer output{.from = prepared.receive.staging,
                              .to = prepared.receive.staging != nullptr ? own : nullptr,
                              .units = prepared.receive.bytes / unit,
                              .unit_bytes = unit};
    descriptor->flags |= kCopiesAlong;
    slice_copy_.emplace(operation.communicator, descriptor->sequence, element, input, output);
  }

  /// Several communicators may share a stream, and then they share its position too.
  Status TakePositions(std::vector<std::unique_lock<std::mutex>>* orders) {
    std::vector<HostStream*> streams;
    for (const QueueUse& queue : queues_) {
      if (queue.stream != nullptr) streams.push_back(queue.stream);
    }
    // One order for all threads, so that two launches on the same streams cannot deadlock.
    std::sort(streams.begin(), streams.end());
    streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
    for (HostStream* stream : streams) {
      orders->emplace_back(stream->order());
      HZ_RETURN_IF_ERROR(stream->AwaitRoom());
      const uint64_t position = stream->NextPosition();
      for (QueueUse& queue : queues_) {
        if (queue.stream != stream) continue;
        queue.position = position;
        queue.communicator->NoteStreamUse(stream->index(), position);
      }
    }
    for (QueueUse& queue : queues_) {
      if (queue.stream == nullptr) queue.position = queue.communicator->NextOwnPosition();
    }
    return Status::Ok();
  }

  static OperationDescriptor Describe(const PreparedOperation& prepared, const QueueUse& queue) {
    const Operation& operation = *prepared.operation;
    OperationDescriptor descriptor;
    if (!IsPointToPoint(operation.collective)) {
      descriptor.sequence = operation.communicator->NextSequence();
    }
    descriptor.count = operation.count;
    descriptor.position = queue.position;
    descriptor.scalar = operation.scalar;
    descriptor.send = prepared.send.reference;
    descriptor.receive = prepared.receive.reference;
    descriptor.member = operation.communicator->member();
    descriptor.stream =
        operation.stream != nullptr ? operation.stream->index() : operation.communicator->member();
    descriptor.root = operation.root;
    descriptor.collective = operation.collective;
    descriptor.type = operation.type;
    descriptor.op = operation.op;
    return descriptor;
  }

  /// Flags the last descriptor of the queue's position, which for a stream that several
  /// communicators share is the last of all of theirs.
  void MarkLast(const QueueUse& queue) {
    size_t last = queue.last_descriptor;
    if (queue.stream != nullptr) {
      for (const QueueUse& other : queues_) {
        if (other.stream == queue.stream) last = std::max(last, other.last_descriptor);
      }
    }
    descriptors_[last].flags |= kLastOfPosition;
  }

  Status Wait() {
    Status kept;
    for (const QueueUse& queue : queues_) {
      const Status status = WaitFor(queue);
      if (kept.ok() || kept.code() == Code::kInProgress) kept = status.ok() ? kept : status;
    }
    return kept;
  }

  Status WaitFor(const QueueUse& queue) {
    if (queue.stream != nullptr) {
      return copy_out_ ? queue.stream->Drain() : Status::Ok();
    }
    Communicator& communicator = *queue.communicator;
    if (communicator.options().blocking || copy_out_) return communicator.AwaitOwnPosition();
    if (communicator.OwnPositionReached()) return communicator.AwaitOwnPosition();
    communicator.SetOperationPending(true);
    return Status(Code::kInProgress, "the operation is under way");
  }

  void ReturnStaging(bool completed) {
    if (completed && slice_copy_) slice_copy_->CopyRest();
    for (PreparedOperation& prepared : prepared_) {
      if (completed && prepared.receive.staging != nullptr && !slice_copy_) {
        std::memcpy(prepared.operation->receive, prepared.receive.staging, prepared.receive.bytes);
      }
      Release(prepared.send);
      Release(prepared.receive);
    }
  }

  static void Release(const PreparedBuffer& buffer) {
    if (buffer.staging == nullptr || buffer.nested) return;
    StagingPool::Get().Release(buffer.staging, buffer.bytes);
  }

  // Kept from launch to launch, so that the steady state allocates nothing.
  InlineLaunch inline_launch_;
  BufferProbe probe_;
  std::vector<Operation> offloaded_;
  std::vector<PreparedOperation> prepared_;
  std::vector<QueueUse> queues_;
  std::vector<OperationDescriptor> descriptors_;
  uint64_t staged_bytes_ = 0;
  bool copy_out_ = false;
  bool copies_along_ = false;
  std::optional<SliceCopy> slice_copy_;  // of the one operation that copies along
};

Launch* MakeLaunchOfThread() {
  thread_local Launch launch;
  return &launch;
}

Launch& Launch::OfThisThread() {
  thread_local Launch* launch = nullptr;
  if (launch == nullptr) launch = MakeLaunchOfThread();
  return *launch;
}

Status CheckStream(const Operation& operation) {
  if (operation.stream == nullptr ||
      &operation.stream->session() == &operation.communicator->session()) {
    return Status::Ok();
  }
  return InvalidUsage(
      "the host stream was made on a connection to the daemon that is lost; make a new one");
}

/// For operations whose communicators and streams have been checked.
Status LaunchChecked(std::span<const Operation> operations) {
  const QuickAttempt attempt = TryQuickly(operations);
  if (attempt.state == QuickAttempt::State::kDone) return Status::Ok();
  return Launch::OfThisThread().Run(operations, attempt);
}

}  // namespace

Status LaunchOperations(std::span<const Operation> operations) {
  const Communicator* checked = nullptr;
  for (const Operation& operation : operations) {
    if (operation.communicator != checked) {
      HZ_RETURN_IF_ERROR(operation.communicator->CheckUsable());
    }
    checked = operation.communicator;
    HZ_RETURN_IF_ERROR(CheckStream(operation));
  }
  return LaunchChecked(operations);
}

Status LaunchOperation(const Operation& operation) {
  HZ_RETURN_IF_ERROR(CheckStream(operation));
  return LaunchChecked({&operation, 1});
}

Result<double> EstimateOperations(std::span<const Operation> operations) {
  double seconds = 0;
  for (const Operation& operation : operations) {
    Communicator& communicator = *operation.communicator;
    EstimateRequest request;
    request.count = operation.count;
    request.member = communicator.member();
    request.root = operation.root;
    request.collective = operation.collective;
    request.type = operation.type;
    const Result<EstimateReply> reply = communicator.session().Call<EstimateReply>(request);
    if (!reply.ok()) return reply.status();
    seconds += reply->seconds;
  }
  return seconds;
}

}  // namespace harmonaize
