#include "src/client/operation/launch.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "src/client/inline/inline_launch.h"
#include "src/client/inline/inline_quick.h"
#include "src/client/memory/buffer_probe.h"
#include "src/client/memory/device_memory.h"
#include "src/client/memory/memory.h"
#include "src/client/operation/posting.h"
#include "src/client/operation/prepared_operation.h"
#include "src/client/operation/staging.h"
#include "src/client/operation/window_copy.h"

namespace harmonaize {
namespace {

/// Private data of at least this many bytes goes through a window, while the operation is under
/// way, instead of being staged as a whole before and after it. On one host less data stays in the
/// caches when it is staged, and that takes fewer wake-ups.
constexpr uint64_t kLeastWindowed = uint64_t{4} << 20;
/// Between hosts, where messages take longer than copies.
constexpr uint64_t kLeastWindowedAcrossHosts = uint64_t{512} << 10;

class Launch {
 public:
  static Launch& OfThisThread();

  /// Runs operations from where TryQuickly has left them. `group`: nullptr for a single operation.
  /// Requires: the communicators are usable.
  Status Run(std::span<const Operation> operations, const QuickAttempt& attempt, InGroup* group) {
    group_ = group;
    HZ_RETURN_IF_ERROR(inline_launch_.Run(operations, attempt, &offloaded_));
    return offloaded_.empty() ? Status::Ok() : Offload(offloaded_);
  }

 private:
  Status Offload(std::span<const Operation> operations) {
    Clear();
    Status status = Prepare(operations);
    if (status.ok()) status = posting_.Post(&prepared_, &queues_);
    if (status.ok() && prepared_.front().window_flags != 0) status = CopyThroughWindow();
    if (status.ok()) return Wait();
    for (PreparedOperation& prepared : prepared_) Release(&prepared);
    return status;
  }

  void Clear() {
    prepared_.clear();
    queues_.clear();
    window_copy_.reset();
  }

  size_t QueueOf(const Operation& operation) {
    // The last operation's queue is nearly always this operation's too.
    for (size_t i = queues_.size(); i > 0; --i) {
      const QueueUse& queue = queues_[i - 1];
      if (queue.communicator == operation.communicator && queue.stream == operation.stream) {
        return i - 1;
      }
    }
    queues_.push_back({operation.communicator, operation.stream});
    return queues_.size() - 1;
  }

  Status Prepare(std::span<const Operation> operations) {
    for (const Operation& operation : operations) {
      prepared_.push_back({&operation, QueueOf(operation), {}, {}});
      PreparedOperation& prepared = prepared_.back();
      const Communicator& communicator = *operation.communicator;
      const BufferBlocks blocks =
          BlocksOf(operation.collective, communicator.ranks(), communicator.rank(), operation.root);
      HZ_RETURN_IF_ERROR(SizeOf(operation, blocks.send, &prepared.send.bytes));
      HZ_RETURN_IF_ERROR(SizeOf(operation, blocks.receive, &prepared.receive.bytes));
      HZ_RETURN_IF_ERROR(Locate(operation, operation.send, &prepared.send));
      HZ_RETURN_IF_ERROR(Locate(operation, operation.receive, &prepared.receive));
      if (!prepared.send.is_private && !prepared.receive.is_private) continue;
      queues_[prepared.queue].staged = true;
      if (operations.size() == 1 && MayUseWindows(prepared)) {
        prepared.window_flags = WindowFlags(prepared);
        continue;
      }
      HZ_RETURN_IF_ERROR(StageBoth(&prepared));
      if (prepared.send.staging != nullptr) {
        std::memcpy(prepared.send.staging, operation.send, prepared.send.bytes);
      }
    }
    return Status::Ok();
  }

  /// Returns whether private data is copied while the daemon carries it: it is much, and the call
  /// waits for the operation.
  static bool MayUseWindows(const PreparedOperation& prepared) {
    uint64_t bytes = 0;
    for (const PreparedBuffer* buffer : {&prepared.send, &prepared.receive}) {
      if (buffer->is_private) bytes = std::max(bytes, buffer->bytes);
    }
    const Operation& operation = *prepared.operation;
    const uint64_t least =
        operation.communicator->across_hosts() ? kLeastWindowedAcrossHosts : kLeastWindowed;
    return bytes >= least && !IsPointToPoint(operation.collective) && IsWaitedFor(operation);
  }

  static uint8_t WindowFlags(const PreparedOperation& prepared) {
    unsigned flags = 0;
    if (prepared.send.is_private) flags |= kSendWindow;
    if (prepared.receive.is_private) flags |= kReceiveWindow;
    if (MayBeInPlace(*prepared.operation)) flags |= kOneWindow;
    return static_cast<uint8_t>(flags);
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

  /// Staged data is in place where the collective allows it. That takes half the memory, sends less
  /// through the caches, and the daemon need not copy blocks that stay with the rank.
  Status StageBoth(PreparedOperation* prepared) {
    const Operation& operation = *prepared->operation;
    const bool send_is_larger = prepared->send.bytes > prepared->receive.bytes;
    PreparedBuffer* const larger = send_is_larger ? &prepared->send : &prepared->receive;
    PreparedBuffer* const smaller = send_is_larger ? &prepared->receive : &prepared->send;
    if (larger->is_private) HZ_RETURN_IF_ERROR(Stage(operation, larger));
    if (!smaller->is_private) return Status::Ok();
    if (larger->staging == nullptr || !MayBeInPlace(operation)) return Stage(operation, smaller);
    Nest(operation.communicator->rank(), *larger, smaller);
    return Status::Ok();
  }

  /// An all-to-all in place has to exchange blocks, which takes longer.
  static bool MayBeInPlace(const Operation& operation) {
    return operation.collective != Collective::kAllToAll || operation.send == operation.receive;
  }

  /// Finds a buffer's region, or that it is private.
  Status Locate(const Operation& operation, const void* address, PreparedBuffer* buffer) {
    if (buffer->bytes == 0) return Status::Ok();
    Session& session = operation.communicator->session();
    HZ_ASSIGN_OR_RETURN(BufferReference found,
                        RegionTable::Get().Locate(session, address, buffer->bytes));
    if (found.region != kNoBuffer) {
      buffer->reference = found;
      return Status::Ok();
    }
    if (IsDeviceMemory(address)) {
      return InvalidArgument(
          "{}: {} is GPU memory, which Harmonaize does not carry yet: pass host memory, or run the "
          "program with stock NCCL (HARMONAIZE_FALLBACK=nccl where no daemon listens)",
          CollectiveName(operation.collective), address);
    }
    buffer->is_private = IsThere(operation, address, buffer->bytes);
    if (buffer->is_private) return Status::Ok();
    // The daemon reports the missing memory to all ranks, which would wait for this one otherwise.
    buffer->reference = {.offset = reinterpret_cast<uint64_t>(address)};
    return Status::Ok();
  }

  /// Returns whether the call returns only when the operation is done.
  static bool IsWaitedFor(const Operation& operation) {
    return operation.stream == nullptr && operation.communicator->options().blocking;
  }

  bool IsThere(const Operation& operation, const void* address, uint64_t bytes) {
    if (address == operation.receive) return probe_.Writable(operation.receive, bytes);
    return probe_.Readable(address, bytes);
  }

  Status Stage(const Operation& operation, PreparedBuffer* buffer) {
    // The data copied now must be what the stream's earlier operations produce, and the result can
    // only be copied back once the operation is done. So this operation is not asynchronous.
    if (operation.stream != nullptr) {
      HZ_RETURN_IF_ERROR(operation.stream->Drain(
          [&operation] { return operation.communicator->CheckNotAborted(); }));
    }
    HZ_ASSIGN_OR_RETURN(std::byte * staging, StagingPool::Get().Acquire(buffer->bytes));
    Result<BufferReference> found =
        RegionTable::Get().Locate(operation.communicator->session(), staging, buffer->bytes);
    if (!found.ok()) {
      StagingPool::Get().Release(staging, buffer->bytes);
      return found.status();
    }
    // The buffer is of an earlier session, and its descriptor was closed since: it is of no more
    // use.
    if (found->region == kNoBuffer) return Stage(operation, buffer);
    buffer->staging = staging;
    buffer->reference = *found;
    return Status::Ok();
  }

  /// Places the buffer inside the other one as NCCL defines in place: at the rank's block if the
  /// other buffer holds a block of each rank.
  static void Nest(int rank, const PreparedBuffer& other, PreparedBuffer* buffer) {
    const uint64_t offset =
        other.bytes == buffer->bytes ? 0 : static_cast<uint64_t>(rank) * buffer->bytes;
    buffer->nested = true;
    buffer->staging = other.staging + offset;
    buffer->reference = other.reference;
    buffer->reference.offset += offset;
  }

  Status CopyThroughWindow() {
    window_copy_.emplace(*prepared_.front().operation, posting_.descriptors().front());
    return window_copy_->Run();
  }

  Status Wait() {
    kept_ = Status::Ok();
    for (QueueUse& queue : queues_) {
      if (queue.state == QueueUse::State::kPosted) Settle(&queue);
    }
    return std::exchange(kept_, Status::Ok());
  }

  /// Waits for the launch's operations in the queue, as far as the caller waits, and ends them.
  void Settle(QueueUse* queue) {
    queue->state = QueueUse::State::kWaiting;
    const Status status = queue->stream != nullptr ? SettleOnStream(queue) : SettleOwn(queue);
    queue->state = QueueUse::State::kSettled;
    if (kept_.ok() || kept_.code() == Code::kInProgress) kept_ = status.ok() ? kept_ : status;
  }

  Status SettleOnStream(QueueUse* queue) {
    if (!queue->staged) return Status::Ok();
    const Status status = queue->stream->Drain([this, queue] {
      LeaveAborted();
      return queue->communicator->CheckNotAborted();
    });
    // The operation may still be under way.
    if (!status.ok()) {
      queue->communicator->KeepUntilLeft(TakeStaged(queue));
    } else {
      EndStaged(queue, true);
    }
    return status;
  }

  Status SettleOwn(QueueUse* queue) {
    Communicator& communicator = *queue->communicator;
    if (!communicator.options().blocking && !communicator.OwnPositionReached()) {
      communicator.LeavePending(TakeStaged(queue));
      return Status(Code::kInProgress, "the operation is under way");
    }
    const Status status = communicator.AwaitOwnPosition([this] { LeaveAborted(); });
    EndStaged(queue, status.ok());
    return status;
  }

  /// Leaves aborted communicators. A group may wait for peers of one communicator while another
  /// thread aborts a second one. The second one's operations have ended, and its abort waits for
  /// this thread to leave.
  void LeaveAborted() {
    if (group_ == nullptr) return;
    for (const QueueUse& queue : queues_) {
      Communicator* const communicator = queue.communicator;
      if (communicator != nullptr && communicator->aborted()) LeaveUnlessWaiting(communicator);
    }
  }

  void LeaveUnlessWaiting(Communicator* communicator) {
    const auto is_waiting = [communicator](const QueueUse& queue) {
      return queue.communicator == communicator && queue.state == QueueUse::State::kWaiting;
    };
    if (std::any_of(queues_.begin(), queues_.end(), is_waiting)) return;
    for (QueueUse& queue : queues_) {
      if (queue.communicator != communicator) continue;
      if (queue.state == QueueUse::State::kPosted) Settle(&queue);
      queue.communicator = nullptr;
    }
    group_->Leave(communicator);
  }

  void EndStaged(const QueueUse* queue, bool succeeded) {
    if (!queue->staged) return;
    if (window_copy_) window_copy_->Finish(succeeded);
    for (PreparedOperation& prepared : prepared_) {
      if (&queues_[prepared.queue] != queue) continue;
      if (succeeded && prepared.receive.staging != nullptr) {
        std::memcpy(prepared.operation->receive, prepared.receive.staging, prepared.receive.bytes);
      }
      Release(&prepared);
    }
  }

  /// Returns the staged buffers for others to copy out and give back.
  StagedResults TakeStaged(const QueueUse* queue) {
    StagedResults results;
    if (!queue->staged) return results;
    for (PreparedOperation& prepared : prepared_) {
      if (&queues_[prepared.queue] != queue) continue;
      if (prepared.receive.staging != nullptr) {
        results.AddResult(prepared.operation->receive, prepared.receive.staging,
                          prepared.receive.bytes);
      }
      for (const PreparedBuffer* buffer : {&prepared.send, &prepared.receive}) {
        if (IsBorrowed(*buffer)) results.AddBuffer(buffer->staging, buffer->bytes);
      }
    }
    return results;
  }

  static bool IsBorrowed(const PreparedBuffer& buffer) {
    return buffer.staging != nullptr && !buffer.nested;
  }

  static void Release(PreparedOperation* prepared) {
    for (const PreparedBuffer* buffer : {&prepared->send, &prepared->receive}) {
      if (IsBorrowed(*buffer)) StagingPool::Get().Release(buffer->staging, buffer->bytes);
    }
  }

  // Kept from launch to launch, so the steady state allocates nothing.
  InlineLaunch inline_launch_;
  BufferProbe probe_;
  std::vector<Operation> offloaded_;
  std::vector<PreparedOperation> prepared_;
  std::vector<QueueUse> queues_;
  Posting posting_;
  Status kept_;                            // of the queues that have been waited for
  InGroup* group_ = nullptr;               // of the launch under way
  std::optional<WindowCopy> window_copy_;  // of the one operation that goes through windows
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

/// Requires: the operations' communicators and streams have been checked.
Status LaunchChecked(std::span<const Operation> operations, InGroup* group) {
  const QuickAttempt attempt = TryQuickly(operations);
  if (attempt.state == QuickAttempt::State::kDone) return Status::Ok();
  return Launch::OfThisThread().Run(operations, attempt, group);
}

}  // namespace

Status LaunchOperations(std::span<const Operation> operations, InGroup* group) {
  const Communicator* checked = nullptr;
  for (const Operation& operation : operations) {
    if (operation.communicator != checked) {
      HZ_RETURN_IF_ERROR(operation.communicator->CheckUsable());
    }
    checked = operation.communicator;
    HZ_RETURN_IF_ERROR(CheckStream(operation));
  }
  return LaunchChecked(operations, group);
}

Status LaunchOperation(const Operation& operation) {
  HZ_RETURN_IF_ERROR(CheckStream(operation));
  return LaunchChecked({&operation, 1}, nullptr);
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
    HZ_ASSIGN_OR_RETURN(const EstimateReply reply,
                        communicator.session().Call<EstimateReply>(request));
    seconds += reply.seconds;
  }
  return seconds;
}

}  // namespace harmonaize
