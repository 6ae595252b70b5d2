#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/quota/holdings.h"
#include "src/memory/fault_guard.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

/// Why a session ends whose memory is not there any more.
inline constexpr const char* kMemoryIsGone =
    "pages of its registered memory are not there (a hole was made in it, they were never touched, "
    "or the memory failed)";

/// Memory of a tenant, as it was mapped. Its tenant's Reception makes it and destroys it.
struct RegionMemory {
  RegionMemory() = default;
  ~RegionMemory();
  RegionMemory(const RegionMemory&) = delete;
  RegionMemory& operator=(const RegionMemory&) = delete;

  Holding place;
  Holding bytes;
  Holding descriptor_place;
  FileDescriptor descriptor;
  Mapping mapping;
  FaultGuard guard;  ///< Of the mapping; after it, so that it goes first.
  int node = -1;     ///< Where its pages lie, by the kernel's number; -1: not known.
  RegionMemory* next_unused = nullptr;  ///< For Reception's list.
};

/// Memory of a tenant that the daemon has mapped.
class Region {
 public:
  Region(uint32_t id, std::shared_ptr<RegionMemory> memory) : id_(id), memory_(std::move(memory)) {}

  uint32_t id() const { return id_; }
  uint64_t bytes() const { return memory_->mapping.size(); }
  /// The memory's own, for other ranks of the tenant to map it too; -1 when it was not kept.
  int descriptor() const { return memory_->descriptor.get(); }
  bool shareable() const { return memory_->descriptor.valid(); }
  int node() const { return memory_->node; }
  /// Whether the tenant, or a fault of the hardware, took pages away while an operation ran: what
  /// came of it is worth nothing.
  bool lost() const { return memory_->guard.lost(); }

  /// The address of [offset, offset + bytes), or nullptr when it does not lie in the region.
  std::byte* At(uint64_t offset, uint64_t bytes) const {
    const Mapping& mapping = memory_->mapping;
    if (offset > mapping.size() || bytes > mapping.size() - offset) return nullptr;
    return mapping.data() + offset;
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
  std::shared_ptr<RegionMemory> memory_;
  int uses_ = 0;
  std::function<void()> on_idle_;
};

}  // namespace harmonaize::daemon
