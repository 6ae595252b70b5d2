#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclAllGather(call.send, call.recv, call.count, call.type, call.comm, call.stream);
}

std::vector<Segment> Expected(int, int ranks, int, const Layout& layout) {
  return BlockOfEachRank(ranks, layout.count, 0);
}

constexpr CollectiveSpec kSpec{.program = "all_gather_perf",
                               .call = "ncclAllGather",
                               .layout = BlockToAll,
                               .enqueue = Enqueue,
                               .bus_factor = OthersBlocks,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
