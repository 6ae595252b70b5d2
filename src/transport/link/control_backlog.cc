#include "src/transport/link/control_backlog.h"

#include <algorithm>

namespace harmonaize::transport {
namespace {

/// Dropped bytes for which the rest is moved to the front: moving is paid for by what was sent.
constexpr size_t kMovedBytes = size_t{64} << 10;

}  // namespace

bool ControlBacklog::HasRoom(ControlSender sender, size_t bytes) const {
  if (sender == kOwnMessages) return size() + bytes <= kMostBytes + kMostOwnBytes;
  const auto found = waiting_.find(sender);
  const size_t after = bytes + (found == waiting_.end() ? 0 : found->second);
  return size() < kMostBytes && after <= kMostBytes - size();
}

void ControlBacklog::Append(ControlSender sender, FrameType type,
                            std::span<const std::byte> payload) {
  const size_t before = bytes_.size();
  AppendFrame(type, payload, &bytes_);
  const size_t added = bytes_.size() - before;
  if (runs_.empty() || runs_.back().sender != sender) {
    runs_.push_back({sender, added});
  } else {
    runs_.back().bytes += added;
  }
  waiting_[sender] += added;
}

void ControlBacklog::Drop(size_t bytes) {
  gone_ += bytes;
  while (bytes > 0) {
    Run& oldest = runs_.front();
    const size_t part = std::min(bytes, oldest.bytes);
    const auto waiting = waiting_.find(oldest.sender);
    waiting->second -= part;
    if (waiting->second == 0) waiting_.erase(waiting);
    oldest.bytes -= part;
    if (oldest.bytes == 0) runs_.pop_front();
    bytes -= part;
  }
  if (gone_ < bytes_.size() && gone_ < std::max(kMovedBytes, size())) return;
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(gone_));
  gone_ = 0;
}

}  // namespace harmonaize::transport
