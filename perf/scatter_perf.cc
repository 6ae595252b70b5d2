#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclScatter(call.send, call.recv, call.count, call.type, call.root, call.comm,
                     call.stream);
}

std::vector<Segment> Expected(int rank, int, int root, const Layout& layout) {
  return {
      {Segment::Source::kInput, 0, layout.count, root, static_cast<size_t>(rank) * layout.count}};
}

constexpr CollectiveSpec kSpec{.program = "scatter_perf",
                               .call = "ncclScatter",
                               .rooted = true,
                               .layout = AllToBlock,
                               .enqueue = Enqueue,
                               .bus_factor = OthersBlocks,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
