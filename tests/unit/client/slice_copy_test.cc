#include "src/client/operation/slice_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmonaize {
namespace {

constexpr std::byte kNotCopied{0xee};

/// A buffer of which every byte is another, and one to copy it to.
struct Buffers {
  explicit Buffers(uint64_t bytes) : from(bytes), to(bytes, kNotCopied) {
    for (uint64_t i = 0; i < bytes; ++i) from[i] = std::byte(i % 200);
  }
  SlicedBuffer Sliced(uint64_t units) {
    return {
        .from = from.data(), .to = to.data(), .units = units, .unit_bytes = from.size() / units};
  }
  std::vector<std::byte> from;
  std::vector<std::byte> to;
};

TEST(SlicedBuffer, SlicesAreOfEveryPieceOfEveryUnit) {
  // Two units of 100 bytes, in pieces of 40, 40 and 20, these in slices of 16, 16 and 8.
  Buffers buffers(200);
  const SliceSizes cut{.piece_bytes = 40, .slice_bytes = 16, .slices = 3};
  buffers.Sliced(2).Copy(cut, 1, 2);
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t in_piece = i % 100 % 40;
    const bool copied = in_piece >= 16 && in_piece < 32;
    EXPECT_EQ(buffers.to[i], copied ? buffers.from[i] : kNotCopied) << i;
  }
}

TEST(SlicedBuffer, AllSlicesAreTheWholeBuffer) {
  for (const uint64_t unit : {1, 7, 64, 1000}) {
    for (const uint64_t pieces : {1, 3, 8}) {
      for (const uint64_t slice : {1, 5, 100, 5000}) {
        const uint64_t piece = (unit + pieces - 1) / pieces;
        const SliceSizes cut{
            .piece_bytes = piece, .slice_bytes = slice, .slices = (piece + slice - 1) / slice};
        Buffers buffers(3 * unit);
        for (uint64_t i = 0; i < cut.slices; ++i) buffers.Sliced(3).Copy(cut, i, i + 1);
        EXPECT_EQ(buffers.to, buffers.from) << unit << " " << pieces << " " << slice;
      }
    }
  }
}

TEST(SlicedBuffer, NothingIsCopiedWithoutAnAim) {
  Buffers buffers(64);
  SlicedBuffer sliced = buffers.Sliced(1);
  sliced.to = nullptr;
  EXPECT_EQ(sliced.bytes(), 0u);
  sliced.Copy({.piece_bytes = 64, .slice_bytes = 8, .slices = 8}, 0, 8);
}

}  // namespace
}  // namespace harmonaize
