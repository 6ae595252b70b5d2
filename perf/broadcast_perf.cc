#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

ncclResult_t Enqueue(const Call& call) {
  return ncclBroadcast(call.send, call.recv, call.count, call.type, call.root, call.comm,
                       call.stream);
}

std::vector<Segment> Expected(int, int, int root, const Layout& layout) {
  return {{Segment::Source::kInput, 0, layout.recv_count, root, 0}};
}

constexpr CollectiveSpec kSpec{.program = "broadcast_perf",
                               .call = "ncclBroadcast",
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
