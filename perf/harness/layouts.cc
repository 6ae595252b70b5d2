#include "perf/harness/layouts.h"

namespace harmonaize::perf {
namespace {

size_t BlockCount(size_t count, size_t element_bytes, int ranks) {
  const size_t granule = 16 / element_bytes;
  return count / static_cast<size_t>(ranks) / granule * granule;
}

}  // namespace

Layout WholeBuffers(size_t count, size_t, int) {
  return {.send_count = count, .recv_count = count, .count = count};
}

Layout BlockToAll(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  return {.send_count = block,
          .recv_count = block * static_cast<size_t>(ranks),
          .count = block,
          .send_in_place_stride = block};
}

Layout AllToBlock(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  return {.send_count = block * static_cast<size_t>(ranks),
          .recv_count = block,
          .count = block,
          .recv_in_place_stride = block};
}

Layout AllToAll(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  const size_t all = block * static_cast<size_t>(ranks);
  return {.send_count = all, .recv_count = all, .count = block};
}

std::vector<Segment> BlockOfEachRank(int ranks, size_t count, size_t source_first) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < ranks; ++rank) {
    segments.push_back({.source = Segment::Source::kInput,
                        .output_first = static_cast<size_t>(rank) * count,
                        .count = count,
                        .source_rank = rank,
                        .source_first = source_first});
  }
  return segments;
}

double WholeBuffer(int) {
  return 1;
}

double OthersBlocks(int ranks) {
  return (ranks - 1.0) / ranks;
}

}  // namespace harmonaize::perf
