#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/status.h"

namespace harmonaize {

// Pipes. Two ranks of a communicator may exchange messages beside its operations, in any number of
// *pipes*. NCCL's net plugin carries its connections in them. Ranks number the pipes between them
// as they like; a number is not used again once the pipe was closed. A message has a name that no
// other message of its pipe and direction has. A receive gets the message of its name, which may be
// shorter than its buffer, whenever it comes. Nothing else orders messages.
//
// A message is posted as an OperationDescriptor with the flag kPipeMessage, and with kNotAwaited
// where it may be long in coming:
//
//     collective   kSend or kReceive
//     type         kInt8; `count` is the number of bytes, or the most that are received
//     root         the other rank
//     scalar       the pipe's number, below 2^32
//     sequence     the message's name, below 2^55
//     the other buffer   where a MessageOutcome lies, in memory that the daemon has mapped
//
// It belongs to no stream. The daemon tells its end in the outcome. A send has ended when its
// message was received.

/// The end of one message, in memory of the tenant. The tenant sets both to zero before it posts
/// the message; the daemon writes them once, and never reads them.
struct alignas(16) MessageOutcome {
  std::atomic<uint64_t> bytes;  ///< Bytes that were received, or sent. Set before `end`.
  /// kUnderWay, then kMessageDone or the failure by OutcomeOf.
  std::atomic<uint32_t> end;
  uint32_t reserved;
};
static_assert(sizeof(MessageOutcome) == 16);

inline constexpr uint32_t kUnderWay = 0;
inline constexpr uint32_t kMessageDone = 1;

/// Returns the value of MessageOutcome::end for a message that has ended so.
constexpr uint32_t OutcomeOf(Code code) {
  return kMessageDone + static_cast<uint32_t>(code);
}
static_assert(OutcomeOf(Code::kOk) == kMessageDone);

/// Returns the code that an outcome stands for. Requires: it is not kUnderWay.
constexpr Code CodeOf(uint32_t end) {
  return static_cast<Code>(end - kMessageDone);
}

}  // namespace harmonaize
