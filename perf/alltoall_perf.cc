#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  const size_t all = block * static_cast<size_t>(ranks);
  return {all, all, block, 0, 0};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclAlltoAll(call.send, call.recv, call.count, call.type, call.comm, call.stream);
}

// The block that a rank sends to itself crosses no link.
double BusFactor(int ranks) {
  return (ranks - 1.0) / ranks;
}

std::vector<Segment> Expected(int rank, int ranks, int, const Layout& layout) {
  std::vector<Segment> segments;
  for (int source = 0; source < ranks; ++source) {
    segments.push_back({Segment::Source::kInput, static_cast<size_t>(source) * layout.count,
                        layout.count, source, static_cast<size_t>(rank) * layout.count});
  }
  return segments;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "alltoall_perf",
                            .call = "ncclAlltoAll",
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
