#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclGather(call.send, call.recv, call.count, call.type, call.root, call.comm, call.stream);
}

std::vector<Segment> Expected(int rank, int ranks, int root, const Layout& layout) {
  if (rank != root) return {{Segment::Source::kUntouched, 0, layout.recv_count}};
  return BlockOfEachRank(ranks, layout.count, 0);
}

constexpr CollectiveSpec kSpec{.program = "gather_perf",
                               .call = "ncclGather",
                               .rooted = true,
                               .layout = BlockToAll,
                               .enqueue = Enqueue,
                               .bus_factor = OthersBlocks,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
