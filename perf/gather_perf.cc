#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  return {block, block * static_cast<size_t>(ranks), block, block, 0};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclGather(call.send, call.recv, call.count, call.type, call.root, call.comm, call.stream);
}

// All but its own block come to the root over its link.
double BusFactor(int ranks) {
  return (ranks - 1.0) / ranks;
}

std::vector<Segment> Expected(int rank, int ranks, int root, const Layout& layout) {
  if (rank != root) return {{Segment::Source::kUntouched, 0, layout.recv_count}};
  std::vector<Segment> segments;
  for (int source = 0; source < ranks; ++source) {
    segments.push_back({Segment::Source::kInput, static_cast<size_t>(source) * layout.count,
                        layout.count, source, 0});
  }
  return segments;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "gather_perf",
                            .call = "ncclGather",
                            .rooted = true,
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
