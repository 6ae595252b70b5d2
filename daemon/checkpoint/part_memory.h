#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "daemon/quota/holdings.h"
#include "daemon/tenant/region.h"
#include "src/base/status.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

class PartEraser;

/// Memory that a part of a checkpoint lies in. Thread: any.
class PartMemory {
 public:
  virtual ~PartMemory() = default;
  /// The memory's descriptor, which is handed to processes of its tenant.
  virtual int descriptor() const = 0;
};

/// Memory of a rank, which the rank has lent.
class LentMemory final : public PartMemory {
 public:
  explicit LentMemory(std::shared_ptr<RegionMemory> memory) : memory_(std::move(memory)) {}
  int descriptor() const override { return memory_->descriptor.get(); }

 private:
  const std::shared_ptr<RegionMemory> memory_;
};

/// A copy of another host's part, in memory of this daemon's own. Its tenant pays for it. Nobody
/// else can write to it. It is left out of core dumps, and what was written to it is overwritten at
/// its end.
class CopiedMemory final : public PartMemory {
 public:
  /// Makes room for a part. Its end, which takes a while, is left to `eraser`. Errors:
  /// kInvalidUsage if a quota is used up; kSystemError.
  static Result<std::shared_ptr<CopiedMemory>> Make(Account& account, uint64_t bytes,
                                                    std::shared_ptr<PartEraser> eraser);
  ~CopiedMemory() override;
  CopiedMemory(const CopiedMemory&) = delete;
  CopiedMemory& operator=(const CopiedMemory&) = delete;

  int descriptor() const override { return memory_.descriptor.get(); }
  uint64_t bytes() const { return memory_.mapping.size(); }
  /// Returns where a range is to be written. Requires: it lies in the part.
  std::span<std::byte> At(uint64_t at, uint64_t bytes) {
    return {memory_.mapping.data() + at, bytes};
  }

  // Thread: engine.

  /// Notes that a range is written.
  void NoteWritten(uint64_t at, uint64_t bytes);
  /// Returns whether all of a range is written.
  bool Has(uint64_t at, uint64_t bytes) const;
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  /// Returns the first run between `begin` and `end` of which nothing is written; an empty one at
  /// `end` if there is none.
  Range MissingIn(uint64_t begin, uint64_t end) const;

 private:
  CopiedMemory() = default;

  Holding place_;
  Holding bytes_;
  SharedMemory memory_;
  std::map<uint64_t, uint64_t> written_;  ///< Ranges that do not touch: the end, by the beginning.
};

}  // namespace harmonaize::daemon
