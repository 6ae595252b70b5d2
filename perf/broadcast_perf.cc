#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t, int) {
  return {count, count, count, 0, 0};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclBroadcast(call.send, call.recv, call.count, call.type, call.root, call.comm,
                       call.stream);
}

// The root gives out each element once, however many ranks there are.
double BusFactor(int) {
  return 1;
}

std::vector<Segment> Expected(int, int, int root, const Layout& layout) {
  return {{Segment::Source::kInput, 0, layout.recv_count, root, 0}};
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "broadcast_perf",
                            .call = "ncclBroadcast",
                            .rooted = true,
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
