#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/tenant/posted_operation.h"
#include "src/executor/host/slice_feed.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// The ranks of one collective that copy while it is under way (SliceProgress). Thread: engine.
class RankFeed final : public SliceFeed {
 public:
  /// Takes over the ranks of those parts that copy along (kCopiesAlong). Requires: their members
  /// stay until the operation has ended, or Clear.
  void Assign(std::span<PostedOperation* const> parts);
  /// Forgets the ranks.
  void Clear() { ranks_.clear(); }
  bool empty() const { return ranks_.empty(); }

  void Begin(uint64_t piece_elements, uint64_t slice_elements, uint32_t slices) override;
  /// Returns the number of slices that the slowest rank says it has filled. The ranks' words are
  /// not trusted: they may be wrong, and may change at any time.
  uint64_t Filled() const override;
  void Carried(uint32_t slices) override;

  /// Returns the ranks that still have slices to fill. Requires: Begin was called.
  std::vector<int> Filling() const;

 private:
  struct Rank {
    SliceProgress* progress;
    uint64_t sequence;
    int rank;

    uint64_t Filled() const;
  };

  std::vector<Rank> ranks_;
  uint64_t slices_ = 0;
};

/// Tells a rank that copies along that its operation has ended; does nothing for other ranks.
void EndSliceProgress(const PostedOperation& part);

}  // namespace harmonaize::daemon
