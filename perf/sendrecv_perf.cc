#include "perf/harness/collective_spec.h"

namespace harmonaize::perf {
namespace {

Layout LayOut(size_t count, size_t, int) {
  return {count, count, count, 0, 0};
}

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

// Each rank sends once and receives once, around a ring.
double BusFactor(int) {
  return 1;
}

std::vector<Segment> Expected(int rank, int ranks, int, const Layout& layout) {
  return {{Segment::Source::kInput, 0, layout.count, (rank + ranks - 1) % ranks, 0}};
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using namespace harmonaize::perf;
  const CollectiveSpec spec{.program = "sendrecv_perf",
                            .call = "ncclSend and ncclRecv",
                            .in_place_defined = false,
                            .layout = LayOut,
                            .enqueue = Enqueue,
                            .bus_factor = BusFactor,
                            .expected = Expected};
  return RunBenchmark(spec, argc, argv);
}
