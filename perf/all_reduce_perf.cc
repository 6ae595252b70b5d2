#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclAllReduce(call.send, call.recv, call.count, call.type, call.op, call.comm,
                       call.stream);
}

// Each element crosses a link twice, except for the share that a rank reduces itself.
double BusFactor(int ranks) {
  return 2 * OthersBlocks(ranks);
}

std::vector<Segment> Expected(int, int, int, const Layout& layout) {
  return {{Segment::Source::kReduced, 0, layout.recv_count}};
}

constexpr CollectiveSpec kSpec{.program = "all_reduce_perf",
                               .call = "ncclAllReduce",
                               .reduces = true,
                               .layout = WholeBuffers,
                               .enqueue = Enqueue,
                               .bus_factor = BusFactor,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
