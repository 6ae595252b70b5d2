#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace harmonaize {

class Communicator;

/// Staged data of at least this many bytes is copied while the operation is under way.
inline constexpr uint64_t kCopyAlongBytes = uint64_t{512} << 10;

/// Sizes of an operation's pieces and slices, in bytes: SliceProgress.
struct SliceSizes {
  uint64_t piece_bytes = 0;
  uint64_t slice_bytes = 0;
  uint64_t slices = 0;
};

/// A buffer that is copied slice by slice: `units` of `unit_bytes`, one after the other.
struct SlicedBuffer {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  ///< nullptr: there is nothing to copy.
  uint64_t units = 0;
  uint64_t unit_bytes = 0;

  uint64_t bytes() const { return to == nullptr ? 0 : units * unit_bytes; }
  /// Copies slices [first, last).
  void Copy(const SliceSizes& cut, uint64_t first, uint64_t last) const;
};

/// Copies one collective's data between a rank's own buffers and shared memory, while the daemon
/// carries the slices that are there already: SliceProgress.
class SliceCopy {
 public:
  /// Copies for the collective `sequence` of the communicator's member. Requires: it was posted
  /// with kCopiesAlong.
  SliceCopy(Communicator* communicator, uint64_t sequence, uint64_t element_bytes,
            const SlicedBuffer& input, const SlicedBuffer& output)
      : communicator_(communicator),
        sequence_(sequence),
        element_bytes_(element_bytes),
        input_(input),
        output_(output) {}

  /// Copies until the operation has ended, or nearly. Errors: those of waiting; the caller asks for
  /// the operation's own outcome.
  Status Run();
  /// Copies what Run has not. Requires: the operation is known to have succeeded.
  void CopyRest() { output_.Copy(cut_, copied_, cut_.slices); }

 private:
  Status AwaitSlices(uint64_t slices);
  void ReadCut();
  void Fill();
  Status Drain();

  Communicator* const communicator_;
  const uint64_t sequence_;
  const uint64_t element_bytes_;
  const SlicedBuffer input_;
  const SlicedBuffer output_;
  SliceSizes cut_;
  uint64_t carried_ = 0;
  uint64_t copied_ = 0;
};

}  // namespace harmonaize
