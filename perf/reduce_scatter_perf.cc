#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclReduceScatter(call.send, call.recv, call.count, call.type, call.op, call.comm,
                           call.stream);
}

std::vector<Segment> Expected(int rank, int, int, const Layout& layout) {
  return {
      {Segment::Source::kReduced, 0, layout.count, 0, static_cast<size_t>(rank) * layout.count}};
}

constexpr CollectiveSpec kSpec{.program = "reduce_scatter_perf",
                               .call = "ncclReduceScatter",
                               .reduces = true,
                               .layout = AllToBlock,
                               .enqueue = Enqueue,
                               .bus_factor = OthersBlocks,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
