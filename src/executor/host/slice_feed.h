#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/memory/memory_view.h"

namespace harmonaize {

/// How an operation is cut into slices: slice s is elements [s * slice_elements, (s + 1) *
/// slice_elements) of every piece.
struct SliceShape {
  uint64_t piece_elements = 0;  ///< Elements of a piece; the last ones of a unit may be shorter.
  uint64_t pieces = 1;          ///< Pieces of a unit.
  uint64_t slice_elements = 0;
  uint32_t slices = 0;
  uint32_t slots = 1;  ///< Slots of a window: slice s lies in slot s % slots.
};

/// Where the blocks of one buffer lie while its operation goes slice by slice: in the whole buffer,
/// or in a window, in whose slots the blocks of a slice lie one after the other.
struct SlicedBuffer {
  MemoryView view;          ///< The whole buffer, or the first block in the window's first slot.
  uint64_t slot_bytes = 0;  ///< From one slot to the next; 0: it is whole.

  bool windowed() const { return slot_bytes > 0; }
};

/// Connects an operation with ranks that copy while it is under way: they fill what its slices
/// read, and take what its slices have written.
class SliceFeed {
 public:
  /// Tells that the operation begins, and how it is cut.
  virtual void Begin(const SliceShape& shape) = 0;
  /// Returns how many slices, from the first on, may be read and written. May be more than there
  /// are.
  virtual uint64_t Filled() const = 0;
  /// Puts the ranks' windows in the place of the buffers that they stand for; both lists are by
  /// rank. Called once, when the first slice is filled. Errors: a rank has named memory that cannot
  /// be its window.
  virtual Status PlaceWindows(std::vector<SlicedBuffer>* inputs,
                              std::vector<SlicedBuffer>* outputs) = 0;
  /// Tells that the first `slices` slices are carried: their results are all in place.
  virtual void Carried(uint32_t slices) = 0;

 protected:
  ~SliceFeed() = default;
};

}  // namespace harmonaize
