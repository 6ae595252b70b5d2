#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"
#include "src/base/looking.h"
#include "src/ipc/inline_slot.h"
#include "src/ipc/shared_text.h"
#include "src/ipc/stock_nccl_slot.h"
#include "src/numerics/types.h"

namespace harmonaize {

// The memory that one tenant process and the daemon share for control. The tenant makes it, sealed
// against shrinking, and sends it with its hello. The daemon maps it, and then seals it against new
// writers, and with that against holes (MapAndSeal):
//
//     SessionHeader | SubmissionRing | StreamSlot retired | StreamSlot[kStreamSlots] |
//     MemberSlot[kMaxMembers]
//
// The tenant writes descriptors, the ring's tail, the waiter counts, what it has filled and that it
// exits, and nothing else; the daemon trusts none of it. The daemon's words are for the tenant
// alone: the daemon never reads them back.

inline constexpr uint32_t kSegmentMagic = 0x525a4148;  // "HAZR"

/// The latest version of the session protocol: the control messages and the memory that client and
/// daemon share. It grows by one with a release that adds to either.
inline constexpr uint16_t kProtocolVersion = 23;
/// The oldest version that this release speaks, of which the release before this one has the
/// latest.
inline constexpr uint16_t kOldestProtocolVersion = 19;

/// Descriptors that fit the ring: enough that a burst of small operations never finds it full. They
/// take 128 KiB of memory a session.
inline constexpr uint32_t kRingEntries = 1024;

/// Communicators that one process may hold at once, one for each of its ranks.
inline constexpr uint32_t kMaxMembers = 4096;
/// Host streams that one process may hold at once.
inline constexpr uint32_t kMaxHostStreams = 1024;
/// Ordered queues of a session: one of each member, at its member index, then those of host
/// streams.
inline constexpr uint32_t kStreamSlots = kMaxMembers + kMaxHostStreams;

/// Most threads of a tenant that the daemon wakes at once. Waking takes a microsecond or two for
/// each, and a tenant can have tens of thousands sleep on one word. The others poll within a tenth
/// of a second.
inline constexpr int kMostWoken = 64;

inline constexpr uint32_t kNoMember = ~0u;
/// Value of BufferReference::region if there is no buffer, or no memory at the tenant's address
/// `offset`, which the daemon then reports to all ranks.
inline constexpr uint32_t kNoBuffer = ~0u;

/// Place of a rank's buffer: `offset` bytes into a region, which is memory that tenant and daemon
/// share. The daemon reaches no other memory of a tenant, because a process number may soon stand
/// for another process.
struct BufferReference {
  uint64_t offset = 0;
  uint32_t region = kNoBuffer;
  uint32_t reserved = 0;
};

enum OperationFlags : uint8_t {
  kLastOfPosition = 1,  ///< No further operation shares this stream position.
  /// The send (receive) buffer is private: while the operation is under way, the rank copies it
  /// through a window, as one of its member's SliceProgress tells.
  kSendWindow = 2,
  kReceiveWindow = 4,
  /// One window holds both buffers, the smaller one where NCCL has it in place.
  kOneWindow = 8,
  /// The descriptor is of a message, and not of an operation: see pipe_message.h.
  kPipeMessage = 16,
  /// The message may be long in coming: nobody is to look out for it meanwhile.
  kNotAwaited = 32,
};

/// One rank's part in one operation, as the tenant writes it; two cache lines.
struct alignas(64) OperationDescriptor {
  /// Counts the collectives of a member from 0. A send or a receive with a window has a number that
  /// no other one of the member has; it means nothing to the daemon.
  uint64_t sequence = 0;
  uint64_t count = 0;     ///< Elements of one block, as in NCCL's calls.
  uint64_t position = 0;  ///< Position in the stream, from 1. Operations of one group share a
                          ///< position.
  uint64_t scalar = 0;    ///< For kPreMulSum: the bits of one element.
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

/// A queue of descriptors from tenant to daemon. The tenant serialises its producers with a lock of
/// its own; the consumer is the daemon's engine thread.
struct SubmissionRing {
  // Written by the tenant.
  alignas(64) std::atomic<uint32_t> tail;
  /// 1 while a producer sleeps on `head` until half of the ring is free; the daemon resets it to 0
  /// and wakes the producer.
  std::atomic<uint32_t> producer_waiting;
  /// Number of times that the tenant has rung, by a system call each; for the operator's
  /// statistics.
  std::atomic<uint64_t> doorbells;

  /// Written by the daemon, once for each batch that it takes; a futex word.
  alignas(64) std::atomic<uint32_t> head;
  /// 1 while the daemon sleeps on the doorbell; the tenant resets it to 0 and rings.
  alignas(64) std::atomic<uint32_t> consumer_waiting;
  alignas(64) OperationDescriptor entries[kRingEntries];
};

/// Progress of one ordered queue of operations.
struct alignas(64) StreamSlot {
  /// The last position up to which all operations are done.
  std::atomic<uint64_t> completed;
  /// Number of tenant threads that sleep until `completed` has reached their position.
  std::atomic<uint32_t> waiters;
  /// The first position that a sleeping thread waits for, as MarkAwaited writes it; 0: none. The
  /// threads' futex word. The daemon resets it to 0 when it wakes them, which it does only once the
  /// position is reached.
  std::atomic<uint32_t> awaited;
  /// Number of operations of this stream that failed; the last one's code and member follow.
  std::atomic<uint32_t> error_count;
  std::atomic<uint32_t> error_code;
  std::atomic<uint32_t> error_member;
  /// Operations that have ended since the session began, including those of the position under way.
  std::atomic<uint64_t> ended;
};
static_assert(sizeof(StreamSlot) == 64);

/// Describes how a rank copies private buffers of an operation through a window of shared memory,
/// slice by slice, while the daemon carries other slices. It serves one operation at a time: the
/// daemon begins the next one when this one has ended. Counts of slices are encoded by SliceCount,
/// so they tell which operation they count for.
///
/// In a send or a receive an element is a byte, because the two sides may differ in type.
/// Each unit of the operation's `count` elements is cut into `pieces` pieces of `piece_elements`,
/// of which the last may be shorter, or empty. Slice s is elements [s * slice_elements, (s + 1) *
/// slice_elements) of every piece of both buffers. It lies in slot s % slots of the window, as
/// WindowLayout says. The rank fills slice s when it has drained slice s - slots.
struct alignas(64) SliceProgress {
  /// Written by the daemon. `completed` counts the slices, from the first on, whose outputs are
  /// complete. A count of 0 tells that the words below are set, and that the rank may fill.
  /// kAllSlices at the operation's end, however it ends; an operation that ends before it has begun
  /// tells so by its stream alone.
  StreamSlot carried;
  std::atomic<uint64_t> piece_elements;
  std::atomic<uint64_t> pieces;
  std::atomic<uint64_t> slice_elements;
  std::atomic<uint64_t> slices;
  std::atomic<uint64_t> slots;
  /// Written by the tenant: counts the slices, from the first on, whose inputs are complete, and
  /// whose places for outputs are free. The words below are set before the first.
  alignas(64) std::atomic<uint64_t> filled;
  /// The window: a region, and where in it the first slot lies.
  std::atomic<uint32_t> window_region;
  std::atomic<uint64_t> window_offset;
};

/// Stands for all slices of an operation; more than any operation has.
inline constexpr uint64_t kAllSlices = (uint64_t{1} << 24) - 1;

/// Returns the first `slices` slices of the operation `sequence`, encoded for SliceProgress.
constexpr uint64_t SliceCount(uint64_t sequence, uint64_t slices) {
  return (sequence + 1) << 24 | (slices < kAllSlices ? slices : kAllSlices);
}
/// Returns the operation that a count is of; the largest number if it is of none.
constexpr uint64_t SequenceOf(uint64_t count) {
  return (count >> 24) - 1;
}
/// Returns whether a count is one of that operation.
constexpr bool CountsFor(uint64_t sequence, uint64_t count) {
  return SequenceOf(count) == sequence;
}
/// Returns how many slices of that collective a count stands for: none if it counts an earlier
/// collective's, and kAllSlices if it counts a later one's.
constexpr uint64_t SlicesOf(uint64_t sequence, uint64_t count) {
  const uint64_t begin = SliceCount(sequence, 0);
  if (count < begin) return 0;
  return count - begin < kAllSlices ? count - begin : kAllSlices;
}

/// Which SliceProgress of a member an operation has. Each serves operations in an order of its own,
/// which the daemon chooses such that none waits for another that waits for it (PairLanes).
enum SliceLane : uint32_t {
  kCollectiveLane,  ///< In the order of the collectives.
  // Sends and receives whose peer is on this host, and then those whose peer is on another one.
  kSendLane,
  kReceiveLane,
  kFarSendLane,
  kFarReceiveLane,
  kSliceLanes
};

enum class MemberState : uint32_t {
  kUnused = 0,
  kForming,  ///< Waits for the other ranks.
  kReady,
  kFailed,  ///< It never became ready, or broke; `error` says why.
};

/// State of a communicator that its rank may see.
struct alignas(64) MemberSlot {
  std::atomic<uint32_t> state;       ///< MemberState; a futex word.
  std::atomic<uint32_t> waiters;     ///< Tenant threads that sleep on `state`.
  std::atomic<uint32_t> error_code;  ///< Code of the communicator's failure, once kFailed.
  std::atomic<int32_t> rank;         ///< Set when kReady.
  std::atomic<int32_t> ranks;        ///< Set when kReady.
  /// Set when kReady: not 0 in a communicator on several hosts.
  std::atomic<uint32_t> across_hosts;
  /// Set when kReady: each run of this many ranks, from rank 0 on, shares a host.
  std::atomic<int32_t> ranks_together;
  /// Set when kReady: not 0 if all ranks have said JoinRequest::on_gpu.
  std::atomic<uint32_t> all_on_gpu;
  /// Number of ranks that had this slot and left for good; a futex word, for `waiters`.
  std::atomic<uint32_t> departures;
  SliceProgress lanes[kSliceLanes];
  InlineSlot inline_path;
  StockNcclSlot stock_nccl;
  JobText job;        ///< Set when kReady: the id of the communicator's job.
  ErrorText error;    ///< The last failure of the communicator or an operation.
  NoticeText notice;  ///< Ranks that are late, while the others wait; also warnings.
};
static_assert(sizeof(MemberSlot) % 64 == 0);

struct SessionHeader {
  uint32_t magic;
  uint32_t version;  ///< Of the session protocol, as the daemon answered the hello.
  /// Nanoseconds that waking a sleeper takes on this host: see WaitEstimate.
  uint32_t wake_up_ns;
  /// 1 while the active ranks of this host and the daemon outnumber the processors: waiting threads
  /// then yield.
  std::atomic<uint32_t> crowded;
  /// Number of other sleepers that a wait may depend on, as in WaitEstimate; larger once a
  /// communicator of this session spans hosts.
  std::atomic<uint32_t> sleepers;
  /// The tenant writes another number to `sign`, and rings the doorbell, to check that the daemon
  /// still works; the daemon's engine repeats the number in `answered_sign`.
  std::atomic<uint32_t> sign;
  std::atomic<uint32_t> answered_sign;
  /// Written by the tenant, which rings the doorbell when it grows: how many of the session's ranks
  /// tell the daemon of an operation in which they wait (InlineSlot::wait).
  std::atomic<uint32_t> inline_waits;
  /// Changes when something has happened for which a tenant thread may wait that copies private
  /// data: slices were carried (SliceProgress), or a queue got on. A futex word.
  std::atomic<uint32_t> news;
  /// 1 while a thread sleeps on `news`; the daemon resets it to 0 and changes `news`.
  std::atomic<uint32_t> news_wanted;
  /// A Looking, of all waits of the session: what the jobs of its ranks were granted.
  std::atomic<uint32_t> looking;
  /// Reason why the daemon ended the session, set before it closes the socket.
  ErrorText goodbye;
  /// Written by the tenant: kProcessExits once its process ends by exit, or by a return from main.
  /// A process that is killed, crashes or calls _exit says nothing.
  std::atomic<uint32_t> ending;
  /// Number of knocks at the process's door that have come (MessageType::kTakeKnock).
  std::atomic<uint32_t> knocks;
};

/// Returns how threads of a session wait. No order with other words is needed: it is advice.
inline Looking LookingOf(const SessionHeader& header) {
  return static_cast<Looking>(header.looking.load(std::memory_order_relaxed));
}

/// A value of SessionHeader::ending.
inline constexpr uint32_t kProcessExits = 1;

struct SessionSegment {
  alignas(64) SessionHeader header;
  alignas(64) SubmissionRing ring;
  /// `completed` counts the operations of all queues that have ended: HelloReply::most_operations.
  StreamSlot retired;
  StreamSlot streams[kStreamSlots];
  MemberSlot members[kMaxMembers];
};

// How a tenant thread sleeps until `position` is completed, and why no thread sleeps for too long:
//
//     tenant                                  daemon
//     waiters += 1                            completed = position
//     word = MarkAwaited(position)            if (waiters > 0 and the mark is reached)
//     while (completed < position)              awaited = 0
//       sleep while awaited == word             wake up to kMostWoken
//       word = MarkAwaited(position)
//     if (LeaveMark(word)) wake all
//
// All accesses are sequentially consistent, so either the tenant sees what was completed or the
// daemon sees the mark. If the daemon resets the mark while a thread is about to sleep, the thread
// finds the word changed, and does not sleep. But a third thread may have marked the same position
// again meanwhile, and then found it completed: the first thread now sleeps on that mark. So a
// thread that leaves also removes a mark of its own that is still there, and wakes the others, who
// mark anew what they wait for.
//
// A thread that waits for more than one word, or for words of several operations, sleeps on `news`:
//
//     tenant                                  daemon
//     word = news                             tells what has happened
//     news_wanted = 1                         if (news_wanted == 1)
//     unless there is something to do           news_wanted = 0
//       sleep while news == word                news += 1
//                                               wake up to kMostWoken
//
// All accesses are sequentially consistent. Whatever happens after the thread's look finds
// news_wanted set, or finds that it was reset for something else in between: then `news` differs
// from the word that was read before.

/// Marks `position` as awaited, unless an earlier one is already. Returns the word's value. Tenant.
uint32_t MarkAwaited(StreamSlot* slot, uint64_t position);
/// Ends a wait whose last mark was `word`. Returns whether the caller has to wake all threads that
/// sleep on `awaited`. Tenant.
bool LeaveMark(StreamSlot* slot, uint32_t word);
/// Removes the mark if a thread sleeps for a position up to `completed`. Returns whether it did:
/// the caller has to wake the threads that sleep on `awaited`. Daemon; trusts nothing, because
/// false words of a tenant only harm that tenant.
bool TakeReachedMark(StreamSlot* slot, uint64_t completed);

/// Announces that the caller sleeps on `news` soon. Returns its value. Tenant.
uint32_t ExpectNews(SessionHeader* header);
/// Wakes the threads that sleep on `news`, or are about to. Both sides; trusts nothing.
void TellNews(SessionHeader* header);

}  // namespace harmonaize
