// The collectives of Gloo over TCP:
//
//   compare_gloo RANKS FOLDER      all ranks, on the loopback address
//   compare_gloo FOLDER            one rank, as RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say
//   compare_gloo --version
//
// A rank on its own uses the address by which it reaches the master, so one NIC of its host: Gloo
// has one device for a context.
//
// Gloo has no reduce-scatter of this interface.

#include <arpa/inet.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perf/compare/forked_ranks.h"
#include "perf/compare/peer_loop.h"

namespace harmonaize::perf {
namespace {

using ContextPointer = std::shared_ptr<gloo::Context>;
using Operation = std::function<void()>;

struct Place {
  int rank = 0;
  int ranks = 0;
  std::string address;
};

ContextPointer Connect(const Place& place, const std::string& folder) {
  gloo::transport::tcp::attr attributes(place.address.c_str());
  auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.ranks);
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  context->connectFullMesh(store, device);
  return context;
}

// The options are built once, so that the peer can register its buffers outside of the timed loop.
template <typename Options>
std::shared_ptr<Options> MakeOptions(const ContextPointer& context, const PeerWork& work,
                                     float* send, float* recv) {
  auto options = std::make_shared<Options>(context);
  if (send != nullptr) options->setInput(send, work.send_count);
  if (recv != nullptr) options->setOutput(recv, work.recv_count);
  return options;
}

Operation MakeSendReceive(const ContextPointer& context, const PeerWork& work) {
  auto out = std::shared_ptr<gloo::transport::UnboundBuffer>(
      context->createUnboundBuffer(work.send, work.send_count * sizeof(float)));
  auto in = std::shared_ptr<gloo::transport::UnboundBuffer>(
      context->createUnboundBuffer(work.recv, work.recv_count * sizeof(float)));
  const int next = (work.rank + 1) % work.ranks;
  const int previous = (work.rank + work.ranks - 1) % work.ranks;
  return [=] {
    in->recv(previous, 1);
    out->send(next, 1);
    in->waitRecv();
    out->waitSend();
  };
}

Operation MakeScatter(const ContextPointer& context, const PeerWork& work) {
  auto options = std::make_shared<gloo::ScatterOptions>(context);
  if (work.rank == 0) {
    std::vector<float*> blocks;
    for (int rank = 0; rank < work.ranks; ++rank) {
      blocks.push_back(work.send + static_cast<size_t>(rank) * work.block);
    }
    options->setInputs(blocks, work.block);
  }
  options->setOutput(work.recv, work.recv_count);
  options->setRoot(0);
  return [options] { gloo::scatter(*options); };
}

using Sum = void (*)(void*, const void*, const void*, size_t);
constexpr Sum kSum = &gloo::sum<float>;

// Returns no operation if Gloo has none of this kind.
Operation MakeOperation(const ContextPointer& context, const PeerWork& work) {
  const bool root = work.rank == work.root;
  float* const send = work.send;
  float* const recv = work.recv;
  switch (work.kind) {
    case kPeerAllReduce: {
      auto options = MakeOptions<gloo::AllreduceOptions>(context, work, send, recv);
      options->setReduceFunction(kSum);
      return [options] { gloo::allreduce(*options); };
    }
    case kPeerReduce: {
      auto options = MakeOptions<gloo::ReduceOptions>(context, work, send, recv);
      options->setReduceFunction(kSum);
      options->setRoot(work.root);
      return [options] { gloo::reduce(*options); };
    }
    case kPeerBroadcast: {
      float* const buffer = root ? send : recv;
      auto options = MakeOptions<gloo::BroadcastOptions>(context, work, nullptr, buffer);
      options->setRoot(work.root);
      return [options] { gloo::broadcast(*options); };
    }
    case kPeerAllGather: {
      auto options = MakeOptions<gloo::AllgatherOptions>(context, work, send, recv);
      return [options] { gloo::allgather(*options); };
    }
    case kPeerGather: {
      auto options = MakeOptions<gloo::GatherOptions>(context, work, send, root ? recv : nullptr);
      options->setRoot(0);
      return [options] { gloo::gather(*options); };
    }
    case kPeerAllToAll: {
      auto options = MakeOptions<gloo::AlltoallOptions>(context, work, send, recv);
      return [options] { gloo::alltoall(*options); };
    }
    case kPeerScatter: return MakeScatter(context, work);
    // A rank has no connection to itself.
    case kPeerSendReceive: return work.ranks > 1 ? MakeSendReceive(context, work) : nullptr;
    default: return nullptr;
  }
}

struct Library {
  ContextPointer context;
  std::vector<Operation> operations;  // by root
};

Library& LibraryOf(void* context) {
  return *static_cast<Library*>(context);
}

int Complain(const PeerWork* work, const std::exception& error) {
  std::fprintf(stderr, "compare_gloo: rank %d: %s\n", work->rank, error.what());
  return -1;
}

int Prepare(void* context, const PeerWork* work) try {
  Library& library = LibraryOf(context);
  PeerWork one = *work;
  for (one.root = 0; one.root < (work->in_turns ? work->ranks : 1); ++one.root) {
    Operation operation = MakeOperation(library.context, one);
    if (!operation) return kPeerUnsupported;
    library.operations.push_back(std::move(operation));
  }
  return 0;
} catch (const std::exception& error) {
  return Complain(work, error);
}

void Finish(void* context, const PeerWork*) {
  LibraryOf(context).operations.clear();
}

int Run(void* context, const PeerWork* work) try {
  LibraryOf(context).operations[static_cast<size_t>(work->root)]();
  return 0;
} catch (const std::exception& error) {
  return Complain(work, error);
}

bool Serve(const char* folder, const Place& place) try {
  PeerTeam team;
  if (PeerTeamJoin(&team, folder, place.rank, place.ranks) != 0) return false;
  Library context{Connect(place, folder), {}};
  const PeerLibrary library{.context = &context,
                            .allocate = PeerAllocateHeap,
                            .release = PeerReleaseHeap,
                            .prepare = Prepare,
                            .finish = Finish,
                            .run = Run};
  const bool ok = PeerServe(&team, &library) == 0;
  if (ok) PeerTeamBarrier(&team);  // nobody hangs up on a slower one
  return ok;
} catch (const std::exception& error) {
  std::fprintf(stderr, "compare_gloo: rank %d: %s\n", place.rank, error.what());
  return false;
}

// Returns this host's address on the way to another; empty, with errno, when there is none. Nothing
// is sent.
std::string AddressTowards(const char* host, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
    errno = EINVAL;
    return "";
  }
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  socklen_t length = sizeof(address);
  char text[INET_ADDRSTRLEN] = "";
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return text;
}

// Serves the one rank that a launcher has started.
bool ServeAlone(const char* folder) {
  const char* values[4];
  const char* const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  for (int i = 0; i < 4; ++i) {
    values[i] = std::getenv(names[i]);
    if (values[i] != nullptr) continue;
    std::fprintf(stderr, "compare_gloo: %s is not set; perf/compare/fabric starts this\n",
                 names[i]);
    return false;
  }
  const Place place{std::atoi(values[0]), std::atoi(values[1]),
                    AddressTowards(values[2], values[3])};
  if (place.address.empty()) {
    std::fprintf(stderr, "compare_gloo: no way to MASTER_ADDR %s: %s\n", values[2],
                 std::strerror(errno));
    return false;
  }
  return Serve(folder, place);
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("%d.%d.%d\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
    return 0;
  }
  if (argc == 2) return ServeAlone(argv[1]) ? 0 : 1;
  const int ranks = argc == 3 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) {
    std::fprintf(stderr, "usage: %s [RANKS] FOLDER (perf/compare starts this)\n", argv[0]);
    return 2;
  }
  return RunForked(ranks,
                   [&](int rank) {
                     return Serve(argv[2], {rank, ranks, "127.0.0.1"});
                   })
             ? 0
             : 1;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::Main(argc, argv);
}
