#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  return {block, block * static_cast<size_t>(ranks), block, block, 0};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclAllGather(call.send, call.recv, call.count, call.type, call.comm, call.stream);
}

// A rank need not receive its own block.
double BusFactor(int ranks) {
  return (ranks - 1.0) / ranks;
}

std::vector<Segment> Expected(int, int ranks, int, const Layout& layout) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < ranks; ++rank) {
    segments.push_back(
        {Segment::Source::kInput, static_cast<size_t>(rank) * layout.count, layout.count, rank, 0});
  }
  return segments;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "all_gather_perf",
                            .call = "ncclAllGather",
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
