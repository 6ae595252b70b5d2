#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace harmonaize {

class Communicator;

/// From this size on what a rank stages is copied while the operation is under way.
inline constexpr uint64_t kCopyAlongBytes = uint64_t{512} << 10;

/// How an operation is cut, in bytes: SliceProgress.
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
  /// Slices [first, last).
  void Copy(const SliceSizes& cut, uint64_t first, uint64_t last) const;
};

/// What a rank copies of one collective between its own buffers and shared memory, while the daemon
/// carries those slices that are there: SliceProgress.
class SliceCopy {
 public:
  /// Of the collective `sequence` of the communicator's member, which was posted with kCopiesAlong.
  SliceCopy(Communicator* communicator, uint64_t sequence, uint64_t element_bytes,
            const SlicedBuffer& input, const SlicedBuffer& output)
      : communicator_(communicator),
        sequence_(sequence),
        element_bytes_(element_bytes),
        input_(input),
        output_(output) {}

  /// Until the operation has ended, or nearly. Errors: the wait's; what becomes of the operation is
  /// for the caller to ask.
  Status Run();
  /// Once it is known to have succeeded: copies what Run has not.
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
