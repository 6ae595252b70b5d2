#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"
#include "src/ipc/inline_slot.h"
#include "src/ipc/shared_text.h"
#include "src/numerics/types.h"

namespace harmonaize {

// The memory that one tenant process and the daemon share for control. The tenant makes it, sealed
// against shrinking, and its hello brings it along; the daemon seals it against new writers once it
// has mapped it, and with that against holes (MapAndSeal):
//
//     SessionHeader | SubmissionRing | StreamSlot retired | StreamSlot[kStreamSlots] |
//     MemberSlot[kMaxMembers]
//
// The tenant writes descriptors, the ring's tail, the waiter counts and what it has filled, and
// nothing else; the daemon believes none of it. What the daemon writes here is for the tenant
// alone: it never reads its own words back.

inline constexpr uint32_t kSegmentMagic = 0x525a4148;  // "HAZR"
inline constexpr uint32_t kProtocolVersion = 12;

/// Descriptors that fit the ring: enough that a burst of small operations never finds it full, and
/// 128 KiB of memory a session.
inline constexpr uint32_t kRingEntries = 1024;

/// Communicators that one process may hold at once, one for each of its ranks.
inline constexpr uint32_t kMaxMembers = 4096;
/// Host streams of one process.
inline constexpr uint32_t kMaxHostStreams = 1024;
/// Every member has an ordered queue of its own at its member index; host streams follow.
inline constexpr uint32_t kStreamSlots = kMaxMembers + kMaxHostStreams;

/// Threads of a tenant that the daemon wakes at once. Waking takes it a microsecond or two for
/// each, and a tenant can have ten thousands sleep on one word; the others look for themselves
/// within a tenth of a second.
inline constexpr int kMostWoken = 64;

inline constexpr uint32_t kNoMember = ~0u;
/// In BufferReference::region: there is no buffer, or no memory at the address `offset` of the
/// tenant's, which is named to all ranks.
inline constexpr uint32_t kNoBuffer = ~0u;

/// Where a rank's buffer lies: `offset` bytes into a region, which is memory that tenant and daemon
/// share. The daemon reaches no other memory of a tenant: a process number does not say for long
/// whose memory it is.
struct BufferReference {
  uint64_t offset = 0;
  uint32_t region = kNoBuffer;
  uint32_t reserved = 0;
};

enum OperationFlags : uint8_t {
  kLastOfPosition = 1,  ///< No further operation shares this stream position.
  /// The rank copies while the operation is under way, as its member's SliceProgress tells.
  kCopiesAlong = 2,
};

/// One rank's part in one operation, as the tenant writes it. Two cache lines.
struct alignas(64) OperationDescriptor {
  uint64_t sequence = 0;  ///< Counts the collectives of a member from 0; 0 in a send or a receive.
  uint64_t count = 0;     ///< Elements of one block, as in NCCL's calls.
  uint64_t position = 0;  ///< In the stream, from 1. Operations of one group share a position.
  uint64_t scalar = 0;    ///< kPreMulSum: the bits of one element.
  BufferReference send;
  BufferReference receive;
  uint32_t member = kNoMember;
  uint32_t stream = 0;
  int32_t root = -1;  ///< Root rank, or the peer of a send or a receive.
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kInt8;
  ReduceOperator op = ReduceOperator::kSum;
  uint8_t flags = 0;
};
static_assert(sizeof(OperationDescriptor) == 128);

/// A queue of descriptors, tenant to daemon. The tenant serialises its producers with a lock of its
/// own; the consumer is the daemon's engine thread.
struct SubmissionRing {
  // Written by the tenant.
  alignas(64) std::atomic<uint32_t> tail;
  /// 1 while a producer sleeps on `head` until half of the ring is free; the daemon takes it back
  /// to 0 and wakes.
  std::atomic<uint32_t> producer_waiting;
  /// How often the tenant has rung: a system call each. For the operator's eyes.
  std::atomic<uint64_t> doorbells;

  /// Written by the daemon, once for all that it took in one go; a futex word.
  alignas(64) std::atomic<uint32_t> head;
  /// 1 while the daemon sleeps on the doorbell; the tenant takes it back to 0 and rings.
  alignas(64) std::atomic<uint32_t> consumer_waiting;
  alignas(64) OperationDescriptor entries[kRingEntries];
};

/// How far one ordered queue of operations has come.
struct alignas(64) StreamSlot {
  /// The last position all of whose operations are done.
  std::atomic<uint64_t> completed;
  /// Tenant threads that sleep until it has come far enough.
  std::atomic<uint32_t> waiters;
  /// The first position that one of them waits for, as MarkAwaited writes it; 0: none. Their futex
  /// word. The daemon takes it back to 0 when it wakes them, and does so for no position before.
  std::atomic<uint32_t> awaited;
  /// Operations of this stream that failed; the last one's code and member follow.
  std::atomic<uint32_t> error_count;
  std::atomic<uint32_t> error_code;
  std::atomic<uint32_t> error_member;
  /// Operations that have ended since the session began, those of the position under way included.
  std::atomic<uint64_t> ended;
};
static_assert(sizeof(StreamSlot) == 64);

/// How a rank that waits for a collective copies its heap buffers through shared memory slice by
/// slice, while the daemon carries other slices. Of one operation of a member at a time. Counts of
/// slices are written as SliceCount makes them, so that what one operation leaves behind says
/// nothing about the next.
///
/// Units of the operation's `count` elements are cut into pieces of `piece_elements`, of which the
/// last is shorter; slice s is elements [s * slice_elements, (s + 1) * slice_elements) of every
/// piece of both buffers.
struct alignas(64) SliceProgress {
  /// Written by the daemon: `completed` are the slices before which all are carried: their outputs
  /// are there. Before the first one it tells that the three below are. kAllSlices with the
  /// operation's end, however it ends.
  StreamSlot carried;
  std::atomic<uint64_t> piece_elements;
  std::atomic<uint64_t> slice_elements;
  std::atomic<uint64_t> slices;
  /// Written by the tenant: the slices before which all inputs are there.
  alignas(64) std::atomic<uint64_t> filled;
};

/// All slices of an operation, however many it has; more than it ever has.
inline constexpr uint64_t kAllSlices = (uint64_t{1} << 24) - 1;

/// The first `slices` slices of the collective `sequence` of a member, as SliceProgress has it.
constexpr uint64_t SliceCount(uint64_t sequence, uint64_t slices) {
  return (sequence + 1) << 24 | (slices < kAllSlices ? slices : kAllSlices);
}
/// How many of that collective's slices a count stands for: none where it is of one before, and
/// kAllSlices where it is of one after.
constexpr uint64_t SlicesOf(uint64_t sequence, uint64_t count) {
  const uint64_t begin = SliceCount(sequence, 0);
  if (count < begin) return 0;
  return count - begin < kAllSlices ? count - begin : kAllSlices;
}

enum class MemberState : uint32_t {
  kUnused = 0,
  kForming,  ///< Waits for the other ranks.
  kReady,
  kFailed,  ///< Never became ready, or broke; `error` says why.
};

/// What a rank may know of its communicator.
struct alignas(64) MemberSlot {
  std::atomic<uint32_t> state;       ///< MemberState; a futex word.
  std::atomic<uint32_t> waiters;     ///< Tenant threads that sleep on it.
  std::atomic<uint32_t> error_code;  ///< Code of the communicator's failure, once kFailed.
  std::atomic<int32_t> rank;         ///< Set when kReady.
  std::atomic<int32_t> ranks;        ///< Set when kReady.
  /// Set when kReady: not 0 in a communicator on several hosts, whose ranks may copy large buffers
  /// while the daemon carries them (kCopiesAlong).
  std::atomic<uint32_t> across_hosts;
  /// Set when kReady: ranks 0 to this - 1 share a host, as do all further runs of so many ranks.
  std::atomic<int32_t> ranks_together;
  /// How many ranks that had this slot have left for good; a futex word, for `waiters`.
  std::atomic<uint32_t> departures;
  SliceProgress progress;
  InlineSlot inline_path;
  ErrorText error;    ///< The last failure of the communicator or an operation.
  NoticeText notice;  ///< Who is late, while the others wait; warnings.
};
static_assert(sizeof(MemberSlot) % 64 == 0);

struct SessionHeader {
  uint32_t magic;
  uint32_t version;
  /// What it takes to wake a sleeper on this host, in nanoseconds: see WaitEstimate.
  uint32_t wake_up_ns;
  /// 1 while the ranks that are active here, and the daemon, are more than the processors: then who
  /// waits gives way.
  std::atomic<uint32_t> crowded;
  /// For whom else a wait may have to wait, as in WaitEstimate: more once a communicator of this
  /// session spans hosts.
  std::atomic<uint32_t> sleepers;
  /// The tenant writes another number, and rings the doorbell, when it wonders whether the daemon
  /// still works; the daemon's engine repeats the number.
  std::atomic<uint32_t> sign;
  std::atomic<uint32_t> answered_sign;
  /// Why the daemon ended the session, set before it closes the socket.
  ErrorText goodbye;
};

struct SessionSegment {
  alignas(64) SessionHeader header;
  alignas(64) SubmissionRing ring;
  /// `completed` are the operations of all queues that have ended: HelloReply::most_operations.
  StreamSlot retired;
  StreamSlot streams[kStreamSlots];
  MemberSlot members[kMaxMembers];
};

// How a tenant thread sleeps until `position` is completed, and why nobody sleeps for too long:
//
//     tenant                                  daemon
//     waiters += 1                            completed = position
//     word = MarkAwaited(position)            if (waiters > 0 and the mark is reached)
//     while (completed < position)              awaited = 0
//       sleep while awaited == word             wake up to kMostWoken
//       word = MarkAwaited(position)
//     if (LeaveMark(word)) wake all
//
// All are sequentially consistent, so that either the tenant sees what was completed or the daemon
// sees the mark. A thread that is about to sleep when the daemon takes the mark away finds the word
// changed, and does not. But a third may have marked the same position again meanwhile, one that
// then finds it completed: the first sleeps on that one's mark. So who leaves takes a mark that is
// still there along and wakes the others, who mark anew what they wait for.

/// Marks `position` as awaited, unless an earlier one is already; what the word is now. Tenant.
uint32_t MarkAwaited(StreamSlot* slot, uint64_t position);
/// Ends a wait whose last mark was `word`. Whether the caller has to wake all who sleep on
/// `awaited`. Tenant.
bool LeaveMark(StreamSlot* slot, uint32_t word);
/// Whether somebody sleeps for a position up to `completed`; if so the mark is taken away and the
/// caller has to wake those who sleep on `awaited`. Daemon; believes nothing: what a tenant writes
/// here is to its own harm.
bool TakeReachedMark(StreamSlot* slot, uint64_t completed);

}  // namespace harmonaize
