#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "daemon/quota/holdings.h"
#include "src/memory/fault_guard.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

/// Reason for the end of a session whose memory is not there any more.
inline constexpr const char* kMemoryIsGone =
    "pages of its registered memory are not there (a hole was made in it, they were never touched, "
    "or the memory failed)";

/// Memory of a tenant, as it was mapped. The tenant's Reception makes it and destroys it.
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
  FaultGuard guard;  ///< Guards `mapping`; declared after it, so that it goes first.
  int node = -1;     ///< The node of its pages, by the kernel's number; -1: not known.
  RegionMemory* next_unused = nullptr;  ///< Link of Reception's list of unused regions.
};

/// Memory of a tenant that the daemon has mapped.
class Region {
 public:
  Region(uint32_t id, std::shared_ptr<RegionMemory> memory) : id_(id), memory_(std::move(memory)) {}

  uint32_t id() const { return id_; }
  uint64_t bytes() const { return memory_->mapping.size(); }
  /// The memory's descriptor, with which other ranks of the tenant map it; -1 if it was not kept.
  int descriptor() const { return memory_->descriptor.get(); }
  bool shareable() const { return memory_->descriptor.valid(); }
  int node() const { return memory_->node; }
  /// Returns whether the tenant, or a fault of the hardware, took pages away while an operation
  /// ran. The result of that operation is worth nothing.
  bool lost() const { return memory_->guard.lost(); }

  /// Returns the address of [offset, offset + bytes), or nullptr if it does not lie in the region.
  std::byte* At(uint64_t offset, uint64_t bytes) const {
    const Mapping& mapping = memory_->mapping;
    if (offset > mapping.size() || bytes > mapping.size() - offset) return nullptr;
    return mapping.data() + offset;
  }

  /// Counts one more operation that uses the region.
  void AddUse() { ++uses_; }
  /// Counts one operation less. Returns true if it was the last one and a call of SetOnIdle waits
  /// for that.
  bool DropUse() { return --uses_ == 0 && on_idle_ != nullptr; }
  bool idle() const { return uses_ == 0; }

  /// Sets the call for the moment when no operation uses the region any more. The caller of DropUse
  /// makes it.
  void SetOnIdle(std::function<void()> on_idle) { on_idle_ = std::move(on_idle); }
  std::function<void()> TakeOnIdle() { return std::exchange(on_idle_, nullptr); }

  /// The members of the region's session that offer it, by their indices.
  std::set<uint32_t>& offered_by() { return offered_by_; }

 private:
  uint32_t id_;
  std::shared_ptr<RegionMemory> memory_;
  int uses_ = 0;
  std::function<void()> on_idle_;
  std::set<uint32_t> offered_by_;
};

}  // namespace harmonaize::daemon
