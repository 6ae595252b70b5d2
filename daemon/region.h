#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

/// Memory of a tenant that the daemon has mapped.
class Region {
 public:
  Region(uint32_t id, SharedMemory memory)
      : id_(id), descriptor_(std::move(memory.descriptor)), mapping_(std::move(memory.mapping)) {}

  uint32_t id() const { return id_; }
  uint64_t bytes() const { return mapping_.size(); }
  /// The memory's own, for other ranks of the tenant to map it too; -1 when it was not kept.
  int descriptor() const { return descriptor_.get(); }
  bool shareable() const { return descriptor_.valid(); }
  Mapping TakeMapping() { return std::move(mapping_); }

  /// The address of [offset, offset + bytes), or nullptr when it does not lie in the region.
  std::byte* At(uint64_t offset, uint64_t bytes) const {
    if (offset > mapping_.size() || bytes > mapping_.size() - offset) return nullptr;
    return mapping_.data() + offset;
  }

  /// Operations that use it now.
  void AddUse() { ++uses_; }
  /// True when that was the last one and somebody waits for it.
  bool DropUse() { return --uses_ == 0 && on_idle_ != nullptr; }
  bool idle() const { return uses_ == 0; }

  /// What to do once nothing uses it any more.
  void SetOnIdle(std::function<void()> on_idle) { on_idle_ = std::move(on_idle); }
  std::function<void()> TakeOnIdle() { return std::exchange(on_idle_, nullptr); }

 private:
  uint32_t id_;
  FileDescriptor descriptor_;
  Mapping mapping_;
  int uses_ = 0;
  std::function<void()> on_idle_;
};

}  // namespace harmonaize::daemon
