#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace harmonaize {

/// Bytes to copy. The two ranges do not overlap.
struct CopyPiece {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t bytes = 0;
};

/// Copies all pieces, with so many threads, the caller among them: the others exist until it
/// returns. Where no thread can be had, the caller copies alone.
void CopyInParallel(std::span<const CopyPiece> pieces, int threads);

}  // namespace harmonaize
