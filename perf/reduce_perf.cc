#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclReduce(call.send, call.recv, call.count, call.type, call.op, call.root, call.comm,
                    call.stream);
}

std::vector<Segment> Expected(int rank, int, int root, const Layout& layout) {
  return {{rank == root ? Segment::Source::kReduced : Segment::Source::kUntouched, 0,
           layout.recv_count}};
}

constexpr CollectiveSpec kSpec{.program = "reduce_perf",
                               .call = "ncclReduce",
                               .reduces = true,
                               .rooted = true,
                               .layout = WholeBuffers,
                               .enqueue = Enqueue,
                               .bus_factor = WholeBuffer,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
