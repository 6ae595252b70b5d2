#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t element_bytes, int ranks) {
  const size_t block = BlockCount(count, element_bytes, ranks);
  return {block * static_cast<size_t>(ranks), block, block, 0, block};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclReduceScatter(call.send, call.recv, call.count, call.type, call.op, call.comm,
                           call.stream);
}

// A rank need not send the block that it keeps.
double BusFactor(int ranks) {
  return (ranks - 1.0) / ranks;
}

std::vector<Segment> Expected(int rank, int, int, const Layout& layout) {
  return {
      {Segment::Source::kReduced, 0, layout.count, 0, static_cast<size_t>(rank) * layout.count}};
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "reduce_scatter_perf",
                            .call = "ncclReduceScatter",
                            .reduces = true,
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
