#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/ipc/pipe_message.h"

namespace harmonaize::nccl_net {

/// Place in memory of the daemon and this process where the end of one message is told, with room
/// for a short message.
struct MessageSlot {
  static constexpr size_t kPayloadBytes = 48;

  MessageOutcome* outcome = nullptr;
  std::byte* payload = nullptr;
  BufferReference outcome_place;
  BufferReference payload_place;

  explicit operator bool() const { return outcome != nullptr; }
  /// Returns whether the message has ended. Acquire: what it has brought is there.
  bool ended() const { return outcome->end.load(std::memory_order_acquire) != kUnderWay; }
  Code code() const { return CodeOf(outcome->end.load(std::memory_order_acquire)); }
  uint64_t bytes() const { return outcome->bytes.load(std::memory_order_relaxed); }
};

/// Slots of one session, made when they are needed and kept for reuse. Thread: one at a time.
class MessageSlots {
 public:
  explicit MessageSlots(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  /// Gives the memory back. Requires: no message of a slot is under way.
  ~MessageSlots();
  MessageSlots(const MessageSlots&) = delete;
  MessageSlots& operator=(const MessageSlots&) = delete;

  /// Returns a slot whose outcome is zero. Errors: those of registered memory.
  Result<MessageSlot> Take();
  /// Requires: its message has ended, or was not posted.
  void GiveBack(const MessageSlot& slot) { free_.push_back(slot); }

 private:
  const std::shared_ptr<Session> session_;
  std::vector<std::byte*> blocks_;
  std::vector<MessageSlot> free_;
};

}  // namespace harmonaize::nccl_net
