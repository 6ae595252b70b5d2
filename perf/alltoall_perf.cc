#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclAlltoAll(call.send, call.recv, call.count, call.type, call.comm, call.stream);
}

std::vector<Segment> Expected(int rank, int ranks, int, const Layout& layout) {
  return BlockOfEachRank(ranks, layout.count, static_cast<size_t>(rank) * layout.count);
}

constexpr CollectiveSpec kSpec{.program = "alltoall_perf",
                               .call = "ncclAlltoAll",
                               .layout = AllToAll,
                               .enqueue = Enqueue,
                               .bus_factor = OthersBlocks,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
