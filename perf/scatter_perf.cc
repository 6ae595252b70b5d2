#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  return {block * static_cast<size_t>(ranks), block, block, 0, block};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclScatter(call.send, call.recv, call.count, call.type, call.root, call.comm,
                     call.stream);
}

// All but its own block leave the root over its link.
double BusFactor(int ranks) {
  return (ranks - 1.0) / ranks;
}

std::vector<Segment> Expected(int rank, int, int root, const Layout& layout) {
  return {
      {Segment::Source::kInput, 0, layout.count, root, static_cast<size_t>(rank) * layout.count}};
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "scatter_perf",
                            .call = "ncclScatter",
                            .rooted = true,
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
