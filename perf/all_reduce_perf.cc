#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t, int) {
  return {count, count, count, 0, 0};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclAllReduce(call.send, call.recv, call.count, call.type, call.op, call.comm,
                       call.stream);
}

// Each element crosses a link twice, but for the share that a rank reduces itself.
double BusFactor(int ranks) {
  return 2.0 * (ranks - 1) / ranks;
}

std::vector<Segment> Expected(int, int, int, const Layout& layout) {
  return {{Segment::Source::kReduced, 0, layout.recv_count}};
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "all_reduce_perf",
                            .call = "ncclAllReduce",
                            .reduces = true,
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
