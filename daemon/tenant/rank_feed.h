#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/tenant/posted_operation.h"
#include "src/executor/host/slice_feed.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// The ranks of one operation that copy private buffers while it is under way (SliceProgress).
/// Thread: engine.
class RankFeed final : public SliceFeed {
 public:
  /// Takes over the ranks of those parts that have windows. The lists of PlaceWindows are by rank
  /// for a collective, and by `parts` for a send and a receive. Requires: the parts stay until the
  /// operation has ended, or Clear.
  void Assign(std::span<PostedOperation* const> parts);
  /// Forgets the ranks.
  void Clear() { ranks_.clear(); }
  bool empty() const { return ranks_.empty(); }

  void Begin(const SliceShape& shape) override;
  /// Returns the number of slices that the slowest rank says it has filled. The ranks' words are
  /// not trusted: they may be wrong, and may change at any time.
  uint64_t Filled() const override;
  /// The ranks' words are taken once, and checked.
  Status PlaceWindows(std::vector<SlicedBuffer>* inputs,
                      std::vector<SlicedBuffer>* outputs) override;
  void Carried(uint32_t slices) override;

  /// Returns how many slices were carried.
  uint32_t carried() const { return carried_; }
  /// Returns the ranks that should fill a slice, and have not. Ranks whose windows were full, and
  /// that are not woken yet for the slots that were carried since, are not among them.
  std::vector<int> Filling() const;

 private:
  struct Rank {
    PostedOperation* part;
    size_t place;  // in the lists of PlaceWindows
    uint64_t element_bytes;
    SliceLane lane;
    SliceProgress* progress;
    uint64_t sequence;

    uint64_t Filled() const;
  };

  Status PlaceWindow(const Rank& rank, std::vector<SlicedBuffer>* inputs,
                     std::vector<SlicedBuffer>* outputs) const;

  std::vector<Rank> ranks_;
  SliceShape shape_;
  uint32_t carried_ = 0;  // slices
};

/// Returns whether the rank copies private buffers while the operation is under way.
bool HasWindows(const PostedOperation& part);
/// Returns which of its member's lanes the operation would have.
SliceLane LaneOf(const PostedOperation& part);
/// Tells the part's rank that the operation has ended, if the rank's lane serves this operation.
/// The function does nothing for an operation that ended before it began: the lane may still serve
/// an earlier one, and the rank learns of the end from its stream.
void EndSliceProgress(const PostedOperation& part);

}  // namespace harmonaize::daemon
