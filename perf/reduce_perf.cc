#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t, int) {
  return {count, count, count, 0, 0};
}

ncclResult_t Enqueue(const Call& call) {
  return ncclReduce(call.send, call.recv, call.count, call.type, call.op, call.root, call.comm,
                    call.stream);
}

// The root takes in each element once, however many ranks there are.
double BusFactor(int) {
  return 1;
}

std::vector<Segment> Expected(int rank, int, int root, const Layout& layout) {
  return {{rank == root ? Segment::Source::kReduced : Segment::Source::kUntouched, 0,
           layout.recv_count}};
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "reduce_perf",
                            .call = "ncclReduce",
                            .reduces = true,
                            .rooted = true,
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
