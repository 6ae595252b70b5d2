#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

// Sends around a ring.
ncclResult_t Enqueue(const Call& call) {
  const int next = (call.rank + 1) % call.ranks;
  const int previous = (call.rank + call.ranks - 1) % call.ranks;
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  result = ncclSend(call.send, call.count, call.type, next, call.comm, call.stream);
  if (result == ncclSuccess) {
    result = ncclRecv(call.recv, call.count, call.type, previous, call.comm, call.stream);
  }
  const ncclResult_t end = ncclGroupEnd();
  return result != ncclSuccess ? result : end;
}

std::vector<Segment> Expected(int rank, int ranks, int, const Layout& layout) {
  return {{Segment::Source::kInput, 0, layout.count, (rank + ranks - 1) % ranks, 0}};
}

constexpr CollectiveSpec kSpec{.program = "sendrecv_perf",
                               .call = "ncclSend and ncclRecv",
                               .in_place_defined = false,
                               .layout = WholeBuffers,
                               .enqueue = Enqueue,
                               .bus_factor = WholeBuffer,
                               .expected = Expected};

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::RunBenchmark(harmonaize::perf::kSpec, argc, argv);
}
