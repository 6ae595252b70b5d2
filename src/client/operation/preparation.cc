#include "src/client/operation/preparation.h"

#include <algorithm>
#include <cstring>

#include "src/client/memory/device_memory.h"
#include "src/client/memory/memory.h"
#include "src/client/operation/staging.h"

namespace harmonaize {
namespace {

/// Private data of at least this many bytes goes through a window, while the operation is under
/// way, instead of being staged as a whole before and after it. On one host less data stays in the
/// caches when it is staged, and that takes fewer wake-ups.
constexpr uint64_t kLeastWindowed = uint64_t{2} << 20;
/// The same for collectives between hosts, where messages take longer than copies. (A send through
/// a window is on its way only when its receiver has answered.)
constexpr uint64_t kLeastWindowedAcrossHosts = uint64_t{512} << 10;

/// Bytes that a launch stages as a whole, on one queue. More goes through windows.
constexpr uint64_t kMostStagedOfLaunch = uint64_t{32} << 20;
/// Bytes that a queue holds staged before another launch's operations go through windows as well,
/// though they are small. A rank that is ahead of its peers would fill ever more memory, which is
/// not in the caches any more when the peers come: 20 all-reduces of 512 KiB, posted one after the
/// other, then took five times as long.
constexpr uint64_t kMostStagedBefore = uint64_t{1} << 20;

/// Bytes of operations to which that does not apply: a window takes longer than their memory.
constexpr uint64_t kSmall = uint64_t{32} << 10;

size_t QueueOf(const Operation& operation, std::vector<QueueUse>* queues) {
  // The last operation's queue is nearly always this operation's too.
  for (size_t i = queues->size(); i > 0; --i) {
    const QueueUse& queue = (*queues)[i - 1];
    if (queue.communicator == operation.communicator && queue.stream == operation.stream) {
      return i - 1;
    }
  }
  queues->emplace_back();
  queues->back().communicator = operation.communicator;
  queues->back().stream = operation.stream;
  return queues->size() - 1;
}

Status SizeOf(const Operation& operation, uint64_t blocks, uint64_t* bytes) {
  const uint64_t element = DataTypeSize(operation.type);
  if (__builtin_mul_overflow(operation.count, element, bytes) ||
      __builtin_mul_overflow(*bytes, blocks, bytes) || *bytes > (uint64_t{1} << 62)) {
    return InvalidArgument("{} of {} elements of {} needs more bytes than an address can count",
                           CollectiveName(operation.collective), operation.count,
                           DataTypeName(operation.type));
  }
  return Status::Ok();
}

uint64_t PrivateBytes(const PreparedOperation& prepared) {
  uint64_t bytes = 0;
  for (const PreparedBuffer* buffer : {&prepared.send, &prepared.receive}) {
    if (buffer->is_private) bytes = std::max(bytes, buffer->bytes);
  }
  return bytes;
}

/// Returns whether the operation's input is there already: no operation before it on its queue
/// still has to write it.
bool InputIsThere(const PreparedOperation& prepared, const QueueUse& queue) {
  return !prepared.send.is_private ||
         !queue.copies->WritesTo(prepared.operation->send, prepared.send.bytes);
}

bool HasRoomToStage(uint64_t bytes, const QueueUse& queue) {
  const uint64_t before = queue.copies->staged_bytes();
  const uint64_t launch = queue.batch->staged_bytes() + bytes;
  if (bytes <= kSmall) return before + launch <= kMostStagedOfLaunch;
  return launch <= kMostStagedOfLaunch && (before == 0 || before + launch <= kMostStagedBefore);
}

/// Returns whether private data is copied while the daemon carries it.
bool GoesThroughWindows(const PreparedOperation& prepared, const QueueUse& queue) {
  const Operation& operation = *prepared.operation;
  const bool across_hosts =
      operation.communicator->across_hosts() && !IsPointToPoint(operation.collective);
  const uint64_t least = across_hosts ? kLeastWindowedAcrossHosts : kLeastWindowed;
  const uint64_t bytes = PrivateBytes(prepared);
  return bytes >= least || !HasRoomToStage(bytes, queue) || !InputIsThere(prepared, queue);
}

/// An all-to-all in place has to exchange blocks, which takes longer.
bool MayBeInPlace(const Operation& operation) {
  return operation.collective != Collective::kAllToAll || operation.send == operation.receive;
}

uint8_t WindowFlags(const PreparedOperation& prepared) {
  unsigned flags = 0;
  if (prepared.send.is_private) flags |= kSendWindow;
  if (prepared.receive.is_private) flags |= kReceiveWindow;
  if (MayBeInPlace(*prepared.operation)) flags |= kOneWindow;
  return static_cast<uint8_t>(flags);
}

Status Stage(Session& session, CopyBatch* batch, PreparedBuffer* buffer) {
  HZ_ASSIGN_OR_RETURN(const StagingBuffer staging, AcquireFor(session, buffer->bytes));
  batch->AddBuffer(staging.memory, buffer->bytes);
  buffer->staging = staging.memory;
  buffer->reference = staging.reference;
  return Status::Ok();
}

/// Places the buffer inside the other one as NCCL defines in place: at the rank's block if the
/// other buffer holds a block of each rank.
void Nest(int rank, const PreparedBuffer& other, PreparedBuffer* buffer) {
  const uint64_t offset =
      other.bytes == buffer->bytes ? 0 : static_cast<uint64_t>(rank) * buffer->bytes;
  buffer->staging = other.staging + offset;
  buffer->reference = other.reference;
  buffer->reference.offset += offset;
}

/// Staged data is in place where the collective allows it. That takes half the memory, sends less
/// through the caches, and the daemon need not copy blocks that stay with the rank.
Status StageBoth(PreparedOperation* prepared, CopyBatch* batch) {
  const Operation& operation = *prepared->operation;
  Session& session = operation.communicator->session();
  const bool send_is_larger = prepared->send.bytes > prepared->receive.bytes;
  PreparedBuffer* const larger = send_is_larger ? &prepared->send : &prepared->receive;
  PreparedBuffer* const smaller = send_is_larger ? &prepared->receive : &prepared->send;
  if (larger->is_private) HZ_RETURN_IF_ERROR(Stage(session, batch, larger));
  if (!smaller->is_private) return Status::Ok();
  if (larger->staging == nullptr || !MayBeInPlace(operation)) {
    return Stage(session, batch, smaller);
  }
  Nest(operation.communicator->rank(), *larger, smaller);
  return Status::Ok();
}

Status CopyIn(PreparedOperation* prepared, CopyBatch* batch) {
  const Operation& operation = *prepared->operation;
  HZ_RETURN_IF_ERROR(StageBoth(prepared, batch));
  const PreparedBuffer& send = prepared->send;
  const PreparedBuffer& receive = prepared->receive;
  if (send.staging != nullptr) std::memcpy(send.staging, operation.send, send.bytes);
  if (receive.staging != nullptr) {
    batch->AddResult(operation.receive, receive.staging, receive.bytes);
  }
  return Status::Ok();
}

/// Decides how an operation's private data is copied, and copies it in now if it is staged.
Status PrepareCopies(PreparedOperation* prepared, QueueUse* queue) {
  const Operation& operation = *prepared->operation;
  if (queue->batch == nullptr) {
    queue->copies =
        queue->stream != nullptr ? queue->stream->copies() : operation.communicator->copies();
    queue->batch = std::make_unique<CopyBatch>(operation.communicator, queue->index());
  }
  if (GoesThroughWindows(*prepared, *queue)) {
    prepared->window_flags = WindowFlags(*prepared);
    return Status::Ok();
  }
  return CopyIn(prepared, queue->batch.get());
}

}  // namespace

Status Preparation::Prepare(std::span<const Operation> operations,
                            std::vector<PreparedOperation>* prepared,
                            std::vector<QueueUse>* queues) {
  for (const Operation& operation : operations) {
    prepared->push_back({&operation, QueueOf(operation, queues), {}, {}});
    PreparedOperation& added = prepared->back();
    const Communicator& communicator = *operation.communicator;
    const BufferBlocks blocks =
        BlocksOf(operation.collective, communicator.ranks(), communicator.rank(), operation.root);
    HZ_RETURN_IF_ERROR(SizeOf(operation, blocks.send, &added.send.bytes));
    HZ_RETURN_IF_ERROR(SizeOf(operation, blocks.receive, &added.receive.bytes));
    HZ_RETURN_IF_ERROR(Locate(operation, operation.send, &added.send));
    HZ_RETURN_IF_ERROR(Locate(operation, operation.receive, &added.receive));
    if (!added.send.is_private && !added.receive.is_private) continue;
    HZ_RETURN_IF_ERROR(PrepareCopies(&added, &(*queues)[added.queue]));
  }
  return Status::Ok();
}

// Finds a buffer's region, or that it is private.
Status Preparation::Locate(const Operation& operation, const void* address,
                           PreparedBuffer* buffer) {
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

bool Preparation::IsThere(const Operation& operation, const void* address, uint64_t bytes) {
  if (address == operation.receive) return probe_.Writable(operation.receive, bytes);
  return probe_.Readable(address, bytes);
}

}  // namespace harmonaize
