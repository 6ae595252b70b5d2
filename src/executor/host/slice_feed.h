#pragma once

#include <cstdint>

namespace harmonaize {

/// Connects an operation with ranks that copy while it is under way: they fill what its slices
/// read, and take what its slices have written.
class SliceFeed {
 public:
  /// Tells that the operation begins, cut into so many slices: slice s is elements [s *
  /// slice_elements, (s + 1) * slice_elements) of every piece of `piece_elements`.
  virtual void Begin(uint64_t piece_elements, uint64_t slice_elements, uint32_t slices) = 0;
  /// Returns how many slices, from the first on, may be read and written. May be more than there
  /// are.
  virtual uint64_t Filled() const = 0;
  /// Tells that the first `slices` slices are carried: their results are all in place.
  virtual void Carried(uint32_t slices) = 0;

 protected:
  ~SliceFeed() = default;
};

}  // namespace harmonaize
