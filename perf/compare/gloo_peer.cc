// One collective of Gloo over loopback TCP, measured as the harness measures ours:
//
//   compare_gloo RANKS COLLECTIVE BYTES ITERATIONS WARMUP
//
// float32, sum, out of place but for the broadcast. Gloo has no reduce-scatter of this interface.
// Prints one line of JSON.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "perf/compare/forked_ranks.h"
#include "perf/compare/peer_work.h"

namespace harmonaize::perf {
namespace {

using ContextPointer = std::shared_ptr<gloo::Context>;
using Operation = std::function<void()>;

ContextPointer Connect(const PeerWork& work, const std::string& folder) {
  gloo::transport::tcp::attr attributes("127.0.0.1");
  auto context = std::make_shared<gloo::rendezvous::Context>(work.rank, work.ranks);
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  context->connectFullMesh(store, device);
  return context;
}

// The options are built once: the peer gets to register its buffers outside of the timed loop.
template <typename Options>
std::shared_ptr<Options> MakeOptions(const ContextPointer& context, const PeerWork& work,
                                     float* send, float* recv) {
  auto options = std::make_shared<Options>(context);
  if (send != nullptr) options->setInput(send, work.send_count);
  if (recv != nullptr) options->setOutput(recv, work.recv_count);
  return options;
}

Operation MakeSendReceive(const ContextPointer& context, const PeerWork& work, float* send,
                          float* recv) {
  auto out = std::shared_ptr<gloo::transport::UnboundBuffer>(
      context->createUnboundBuffer(send, work.send_count * sizeof(float)));
  auto in = std::shared_ptr<gloo::transport::UnboundBuffer>(
      context->createUnboundBuffer(recv, work.recv_count * sizeof(float)));
  const int next = (work.rank + 1) % work.ranks;
  const int previous = (work.rank + work.ranks - 1) % work.ranks;
  return [=] {
    in->recv(previous, 1);
    out->send(next, 1);
    in->waitRecv();
    out->waitSend();
  };
}

Operation MakeScatter(const ContextPointer& context, const PeerWork& work, float* send,
                      float* recv) {
  auto options = std::make_shared<gloo::ScatterOptions>(context);
  if (work.rank == 0) {
    std::vector<float*> blocks;
    for (int rank = 0; rank < work.ranks; ++rank) {
      blocks.push_back(send + static_cast<size_t>(rank) * work.block);
    }
    options->setInputs(blocks, work.block);
  }
  options->setOutput(recv, work.recv_count);
  options->setRoot(0);
  return [options] { gloo::scatter(*options); };
}

Operation MakeOperation(const ContextPointer& context, const PeerWork& work, float* send,
                        float* recv) {
  const bool root = work.rank == 0;
  using Sum = void (*)(void*, const void*, const void*, size_t);
  const Sum sum = &gloo::sum<float>;
  if (PeerIs(&work, "all_reduce")) {
    auto options = MakeOptions<gloo::AllreduceOptions>(context, work, send, recv);
    options->setReduceFunction(sum);
    return [options] { gloo::allreduce(*options); };
  }
  if (PeerIs(&work, "reduce")) {
    auto options = MakeOptions<gloo::ReduceOptions>(context, work, send, recv);
    options->setReduceFunction(sum);
    options->setRoot(0);
    return [options] { gloo::reduce(*options); };
  }
  if (PeerIs(&work, "broadcast")) {
    auto options = MakeOptions<gloo::BroadcastOptions>(context, work, nullptr, root ? send : recv);
    options->setRoot(0);
    return [options] { gloo::broadcast(*options); };
  }
  if (PeerIs(&work, "all_gather")) {
    auto options = MakeOptions<gloo::AllgatherOptions>(context, work, send, recv);
    return [options] { gloo::allgather(*options); };
  }
  if (PeerIs(&work, "gather")) {
    auto options = MakeOptions<gloo::GatherOptions>(context, work, send, root ? recv : nullptr);
    options->setRoot(0);
    return [options] { gloo::gather(*options); };
  }
  if (PeerIs(&work, "alltoall")) {
    auto options = MakeOptions<gloo::AlltoallOptions>(context, work, send, recv);
    return [options] { gloo::alltoall(*options); };
  }
  if (PeerIs(&work, "scatter")) return MakeScatter(context, work, send, recv);
  if (PeerIs(&work, "sendrecv")) return MakeSendReceive(context, work, send, recv);
  return nullptr;
}

struct Outcome {
  double seconds;
  long wrong;
};

bool RunRank(const PeerWork& work, const std::string& folder, int iterations, int warmup,
             Outcome* outcome) {
  try {
    const ContextPointer context = Connect(work, folder);
    std::vector<float> send(work.send_count + 16);
    std::vector<float> recv(work.recv_count + 16);
    for (size_t i = 0; i < work.send_count; ++i) send[i] = PeerInput(work.rank, i);
    const Operation operation = MakeOperation(context, work, send.data(), recv.data());
    gloo::BarrierOptions barrier(context);
    for (int i = 0; i < warmup; ++i) operation();
    gloo::barrier(barrier);
    const double start = NowSeconds();
    for (int i = 0; i < iterations; ++i) operation();
    outcome->seconds = (NowSeconds() - start) / iterations;
    outcome->wrong = PeerCountWrong(&work, recv.data());
    gloo::barrier(barrier);  // nobody hangs up on a slower one
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare_gloo: rank %d: %s\n", work.rank, error.what());
    return false;
  }
}

int Main(int argc, char** argv) {
  PeerWork work{};
  work.ranks = argc == 6 ? std::atoi(argv[1]) : 0;
  work.collective = argc == 6 ? argv[2] : "";
  if (work.ranks < 1 || PeerLayOut(&work, std::strtoull(argv[3], nullptr, 10)) == 0) {
    std::fprintf(stderr, "usage: %s RANKS COLLECTIVE BYTES ITERATIONS WARMUP\n", argv[0]);
    return 2;
  }
  // It divides by the number of elements in places, and has no connection to itself.
  const bool to_self = PeerIs(&work, "sendrecv") && work.ranks == 1;
  if (PeerIs(&work, "reduce_scatter") || work.block == 0 || to_self) {
    std::printf("{\"peer\": \"gloo\", \"unsupported\": true}\n");
    return 0;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "compare_gloo_XXXXXX").string();
  auto* outcomes =
      static_cast<Outcome*>(SharedMemory(sizeof(Outcome) * static_cast<size_t>(work.ranks)));
  if (outcomes == nullptr || mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "%s: no shared memory or no temporary folder\n", argv[0]);
    return 1;
  }
  const bool ok = RunForked(work.ranks, [&](int rank) {
    PeerWork mine = work;
    mine.rank = rank;
    return RunRank(mine, folder, std::atoi(argv[4]), std::atoi(argv[5]), outcomes + rank);
  });
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!ok) return 1;
  double seconds = 0;
  long wrong = 0;
  for (int rank = 0; rank < work.ranks; ++rank) {
    seconds += outcomes[rank].seconds / work.ranks;
    wrong += outcomes[rank].wrong;
  }
  std::printf("{\"peer\": \"gloo\", \"time_us\": %.4f, \"wrong\": %ld}\n", seconds * 1e6, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::Main(argc, argv);
}
