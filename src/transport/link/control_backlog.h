#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/transport/message.h"
#include "src/transport/tcp/wire.h"

namespace harmonaize::transport {

/// The frames that wait until the other side of a control link reads, in order. All senders share
/// the room: a sender may fill as much of it as it leaves free. So a sender that floods gets half
/// of the room, the next one a quarter, and there is room for one more at any time. Thread: one.
class ControlBacklog {
 public:
  /// Most bytes of all senders together.
  static constexpr size_t kMostBytes = size_t{16} << 20;
  /// Most bytes of the daemon itself, beyond those of senders.
  static constexpr size_t kMostOwnBytes = size_t{16} << 20;

  /// Returns whether a message of this sender may be appended.
  bool HasRoom(ControlSender sender, size_t bytes) const;
  void Append(ControlSender sender, FrameType type, std::span<const std::byte> payload);

  bool empty() const { return size() == 0; }
  size_t size() const { return bytes_.size() - gone_; }
  /// Returns the bytes that wait, the oldest first.
  std::span<const std::byte> bytes() const { return std::span(bytes_).subspan(gone_); }
  /// Drops the oldest bytes, which have been sent.
  void Drop(size_t bytes);

 private:
  /// Bytes of one sender, one after the other.
  struct Run {
    ControlSender sender;
    size_t bytes;
  };

  std::vector<std::byte> bytes_;
  size_t gone_ = 0;  // bytes at the front of bytes_ that were dropped
  std::deque<Run> runs_;
  std::unordered_map<ControlSender, size_t> waiting_;  // bytes by sender, never 0
};

}  // namespace harmonaize::transport
