#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/tenant/posted_operation.h"
#include "src/executor/network/slice_feed.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// The ranks of one collective that copy while it is under way (SliceProgress). Engine thread only.
class RankFeed final : public SliceFeed {
 public:
  /// Of these parts those that said so. They stay until the operation has ended.
  void Assign(std::span<PostedOperation* const> parts);
  /// Nobody's.
  void Clear() { ranks_.clear(); }
  bool empty() const { return ranks_.empty(); }

  void Begin(uint64_t piece_elements, uint64_t slice_elements, uint32_t slices) override;
  /// As the slowest of them says; nothing that a tenant writes is believed to be true, or to stay.
  uint64_t Filled() const override;
  void Carried(uint32_t slices) override;

  /// The ranks that still have slices to fill, once it has begun.
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

/// Where the part's rank copied along: its operation has ended.
void EndSliceProgress(const PostedOperation& part);

}  // namespace harmonaize::daemon
