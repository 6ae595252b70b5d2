// Bandwidth and latency of NCCL's net plugin between two processes, beside TCP used as NCCL's own
// socket transport uses it. Run with --help.

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugins/nccl-net/net_abi.h"

namespace {

using harmonaize::nccl_abi::NetV12;

constexpr const char* kHelp = R"(Usage: nccl_net_perf [OPTIONS]

Sends messages from rank 0 to rank 1 and prints one line of JSON: bytes per second, and microseconds
of a message there and back. Needs RANK, MASTER_ADDR and MASTER_PORT, as `fabric run` and torchrun
set them.

  --carrier NAME       plugin: NCCL's net plugin of Harmonaize (default); sockets: TCP as NCCL's own
                       socket transport uses it
  --library FILE       the plugin (default: libnccl-net-harmonaize.so)
  --streams N          sockets: TCP connections that share each message (default: 1)
  --source-port N      sockets: source port of the first of them; 0: any (default: 0)
  --connections N      connections of NCCL's, which take turns (default: 1)
  --bytes N            bytes of a message (default: 524288, as NCCL sends)
  --window N           messages under way on a connection (default: 8, as NCCL has)
  --seconds S          how long to send (default: 5)
  --first-seconds S    how long a connection counts as new, whose speed is told apart (default: 0.5)
  --registered         the memory is registered (regMr)
  --round-trips N      messages there and back of 8 bytes, instead of bandwidth
)";

struct Options {
  std::string carrier = "plugin";
  std::string library = "libnccl-net-harmonaize.so";
  int streams = 1;
  int source_port = 0;
  int connections = 1;
  size_t bytes = size_t{512} << 10;
  int window = 8;
  double seconds = 5;
  double first_seconds = 0.5;
  bool registered = false;
  int round_trips = 0;
};

[[noreturn]] void Fail(const std::string& what) {
  fprintf(stderr, "nccl_net_perf: %s\n", what.c_str());
  exit(1);
}

void Check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) Fail(std::string(call) + " failed: " + std::to_string(result));
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---------------------------------------------------------------------------------------------
// TCP

/// Set when the figures are known: what is still under way then is lost when either rank ends.
std::atomic<bool> measured{false};

[[noreturn]] void LoseConnection() {
  while (measured.load()) pause();
  Fail("a TCP connection was lost");
}

void SendAll(int socket, const void* data, size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, next, bytes, MSG_NOSIGNAL);
    if (sent <= 0) LoseConnection();
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void ReceiveAll(int socket, void* data, size_t bytes) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(socket, next, bytes, 0);
    if (received <= 0) LoseConnection();
    next += received;
    bytes -= static_cast<size_t>(received);
  }
}

int NewSocket() {
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  const int one = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return made;
}

sockaddr_in AddressOf(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) Fail("no address of " + host);
  address.sin_addr = reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_addr;
  freeaddrinfo(found);
  return address;
}

int ConnectTo(const sockaddr_in& address, int source_port) {
  for (int i = 0; i < 3000; ++i) {
    const int made = NewSocket();
    if (source_port != 0) {
      sockaddr_in own{};
      own.sin_family = AF_INET;
      own.sin_port = htons(static_cast<uint16_t>(source_port));
      if (bind(made, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) {
        Fail("source port " + std::to_string(source_port) + " is taken");
      }
    }
    if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return made;
    close(made);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Fail("nobody listens");
}

/// The way by which the two ranks tell each other addresses and times.
struct Ranks {
  int rank = atoi(getenv("RANK"));
  int socket = -1;
  std::string own_address;  ///< By which the other rank reaches this one.

  Ranks() {
    const sockaddr_in master = AddressOf(getenv("MASTER_ADDR"), atoi(getenv("MASTER_PORT")));
    if (rank == 0) {
      const int listening = NewSocket();
      sockaddr_in any = master;
      any.sin_addr.s_addr = INADDR_ANY;
      if (bind(listening, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
          listen(listening, 1) != 0) {
        Fail(std::string("cannot listen at MASTER_PORT: ") + strerror(errno));
      }
      socket = accept(listening, nullptr, nullptr);
      close(listening);
    } else {
      socket = ConnectTo(master, 0);
    }
    sockaddr_in own{};
    socklen_t length = sizeof own;
    getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length);
    own_address = inet_ntoa(own.sin_addr);
  }
  template <typename Value>
  void Tell(const Value& value) {
    SendAll(socket, &value, sizeof value);
  }
  template <typename Value>
  Value Hear() {
    Value value;
    ReceiveAll(socket, &value, sizeof value);
    return value;
  }
};

// ---------------------------------------------------------------------------------------------
// Carriers

/// One connection of NCCL's from rank 0 to rank 1. Messages are posted and then ended, in order.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual void Post(bool sends, char* data, size_t bytes) = 0;
  /// Returns whether the oldest one has ended.
  virtual bool Ended() = 0;
};

/// NCCL's socket transport: the sender tells the size of a message, and threads move parts of it
/// over a connection each.
class Sockets final : public Carrier {
 public:
  Sockets(std::vector<int> sockets) : sockets_(std::move(sockets)) {
    for (int socket : sockets_) threads_.emplace_back([this, socket] { Serve(socket); });
  }
  ~Sockets() override {
    stopping_.store(true);
    for (std::thread& thread : threads_) thread.join();
    for (int socket : sockets_) close(socket);
  }
  void Post(bool sends, char* data, size_t bytes) override {
    Message& message = messages_[posted_.load(std::memory_order_relaxed) % kMost];
    message.sends = sends;
    message.data = data;
    message.bytes = bytes;
    message.left.store(static_cast<int>(sockets_.size()), std::memory_order_relaxed);
    posted_.fetch_add(1, std::memory_order_release);
  }
  bool Ended() override {
    if (messages_[ended_ % kMost].left.load(std::memory_order_acquire) > 0) return false;
    ++ended_;
    return true;
  }

 private:
  static constexpr uint64_t kMost = 256;
  /// Smallest part of a message: NCCL's default.
  static constexpr size_t kLeastPart = size_t{64} << 10;
  struct Message {
    bool sends = false;
    char* data = nullptr;
    size_t bytes = 0;
    std::atomic<int> left{0};
  };

  void Serve(int socket) {
    const auto place =
        static_cast<size_t>(std::find(sockets_.begin(), sockets_.end(), socket) - sockets_.begin());
    for (uint64_t next = 0;;) {
      if (posted_.load(std::memory_order_acquire) == next) {
        if (stopping_.load()) return;
        sched_yield();
        continue;
      }
      Message& message = messages_[next++ % kMost];
      // The first connection carries the size, as NCCL's control connection does.
      uint64_t bytes = message.bytes;
      if (place == 0) {
        message.sends ? SendAll(socket, &bytes, sizeof bytes)
                      : ReceiveAll(socket, &bytes, sizeof bytes);
      }
      const size_t part =
          std::max(kLeastPart, (message.bytes + sockets_.size() - 1) / sockets_.size());
      const size_t begin = std::min(place * part, message.bytes);
      const size_t count = std::min(part, message.bytes - begin);
      message.sends ? SendAll(socket, message.data + begin, count)
                    : ReceiveAll(socket, message.data + begin, count);
      message.left.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::array<Message, kMost> messages_;
  std::atomic<uint64_t> posted_{0};
  uint64_t ended_ = 0;
  std::atomic<bool> stopping_{false};
};

class Plugin final : public Carrier {
 public:
  Plugin(const NetV12* net, void* comm) : net_(net), comm_(comm) {}
  ~Plugin() override { sends_ ? net_->close_send(comm_) : net_->close_recv(comm_); }
  void set_sends() { sends_ = true; }
  void Register(char* data, size_t bytes) {
    Check(net_->reg_mr(comm_, data, bytes, harmonaize::nccl_abi::kPointerToHost, &registration_),
          "regMr");
  }
  void Post(bool sends, char* data, size_t bytes) override {
    void* request = nullptr;
    while (request == nullptr) {
      if (sends) {
        Check(net_->isend(comm_, data, bytes, 0, registration_, nullptr, &request), "isend");
      } else {
        void* where = data;
        int tag = 0;
        Check(net_->irecv(comm_, 1, &where, &bytes, &tag, &registration_, nullptr, &request),
              "irecv");
      }
      if (request == nullptr) sched_yield();
    }
    requests_.push_back(request);
  }
  bool Ended() override {
    int done = 0;
    Check(net_->test(requests_.front(), &done, nullptr), "test");
    if (done != 0) requests_.pop_front();
    return done != 0;
  }

 private:
  const NetV12* const net_;
  void* const comm_;
  bool sends_ = false;
  void* registration_ = nullptr;
  std::deque<void*> requests_;
};

std::unique_ptr<Carrier> MakeSockets(const Options& options, Ranks* ranks, bool sends) {
  std::vector<int> sockets;
  for (int i = 0; i < options.streams; ++i) {
    if (sends) {
      const auto address = ranks->Hear<sockaddr_in>();
      const int source = options.source_port == 0 ? 0 : options.source_port + i;
      sockets.push_back(ConnectTo(address, source));
    } else {
      const int listening = NewSocket();
      sockaddr_in own = AddressOf(ranks->own_address, 0);
      socklen_t length = sizeof own;
      if (bind(listening, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0 ||
          listen(listening, 1) != 0) {
        Fail("cannot listen");
      }
      getsockname(listening, reinterpret_cast<sockaddr*>(&own), &length);
      ranks->Tell(own);
      sockets.push_back(accept(listening, nullptr, nullptr));
      close(listening);
    }
  }
  return std::make_unique<Sockets>(std::move(sockets));
}

void WriteLog(harmonaize::nccl_abi::LogLevel level, unsigned long, const char*, int,
              const char* format, ...) {
  if (level > harmonaize::nccl_abi::LogLevel::kWarning) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

std::unique_ptr<Carrier> MakePlugin(const NetV12* net, void* context, Ranks* ranks, bool sends) {
  struct Handle {
    char bytes[harmonaize::nccl_abi::kNetHandleBytes];
  };
  void* comm = nullptr;
  if (sends) {
    auto handle = ranks->Hear<Handle>();
    while (comm == nullptr) {
      Check(net->connect(context, 0, &handle, &comm, nullptr), "connect");
      sched_yield();
    }
  } else {
    Handle handle{};
    void* listening = nullptr;
    Check(net->listen(context, 0, &handle, &listening), "listen");
    ranks->Tell(handle);
    while (comm == nullptr) {
      Check(net->accept(listening, &comm, nullptr), "accept");
      sched_yield();
    }
    net->close_listen(listening);
  }
  auto made = std::make_unique<Plugin>(net, comm);
  if (sends) made->set_sends();
  return made;
}

// ---------------------------------------------------------------------------------------------
// Measurements

struct Connections {
  std::vector<std::unique_ptr<Carrier>> there;  ///< From rank 0 to rank 1.
  std::unique_ptr<Carrier> back;
};

void EndOne(Carrier* carrier) {
  while (!carrier->Ended()) sched_yield();
}

/// Bytes per second of what a rank has sent, or received.
struct Speeds {
  double at_first = 0;  ///< In the first seconds after the first message.
  double afterwards = 0;
};

/// Counts the bytes of messages that end.
class SpeedMeter {
 public:
  explicit SpeedMeter(double first_seconds) : first_seconds_(first_seconds) {}

  void Count(size_t bytes) {
    const double now = Now();
    if (begin_ == 0) {
      begin_ = now;
    } else if (now < begin_ + first_seconds_) {
      first_bytes_ += bytes;
    } else if (first_end_ == 0) {
      first_bytes_ += bytes;
      first_end_ = now;
    } else {
      bytes_ += bytes;
      end_ = now;
    }
  }
  Speeds speeds() const {
    return {static_cast<double>(first_bytes_) / (first_end_ - begin_),
            static_cast<double>(bytes_) / (end_ - first_end_)};
  }

 private:
  const double first_seconds_;
  double begin_ = 0;      // the first message has ended
  double first_end_ = 0;  // the first seconds are over
  double end_ = 0;
  size_t first_bytes_ = 0;
  size_t bytes_ = 0;
};

/// A connection and its messages under way, each in its place of a row of buffers.
struct Lane {
  Carrier* carrier = nullptr;
  char* buffers = nullptr;
  size_t posted = 0;
  size_t ended = 0;
};

/// Moves messages from rank 0 to rank 1 until rank 0 has had enough, which it says in the first
/// byte of a message.
Speeds Bandwidth(const Options& options, Ranks* ranks, Connections* connections, char* data) {
  const bool sends = ranks->rank == 0;
  const auto window = static_cast<size_t>(options.window);
  std::vector<Lane> lanes;
  for (const auto& carrier : connections->there) {
    lanes.push_back({carrier.get(), data + lanes.size() * window * options.bytes, 0, 0});
  }
  const auto buffer = [&](const Lane& lane, size_t message) {
    return lane.buffers + message % window * options.bytes;
  };
  SpeedMeter meter(options.first_seconds);
  const double until = Now() + options.seconds;
  bool last = false;
  // The receiver stops at the last message: what it has not taken is not waited for.
  while (!last) {
    for (Lane& lane : lanes) {
      while (lane.posted - lane.ended < window && !last) {
        char* const message = buffer(lane, lane.posted++);
        last = sends && Now() > until;
        if (sends) message[0] = last ? 1 : 0;
        lane.carrier->Post(sends, message, options.bytes);
      }
      if (last || !lane.carrier->Ended()) continue;
      meter.Count(options.bytes);
      last = !sends && buffer(lane, lane.ended)[0] == 1;
      ++lane.ended;
    }
    sched_yield();
  }
  return meter.speeds();
}

double RoundTrip(const Options& options, Ranks* ranks, Connections* connections, char* data) {
  const double begin = Now();
  for (int i = 0; i < options.round_trips; ++i) {
    Carrier* const first =
        ranks->rank == 0 ? connections->there[0].get() : connections->there[0].get();
    Carrier* const second = connections->back.get();
    first->Post(ranks->rank == 0, data, 8);
    EndOne(first);
    second->Post(ranks->rank == 1, data + 64, 8);
    EndOne(second);
  }
  return (Now() - begin) / options.round_trips;
}

Options Read(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--help") {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (word == "--registered") {
      options.registered = true;
      continue;
    }
    if (i + 1 == count) Fail(word + " needs a value; see --help");
    const std::string value = words[++i];
    if (word == "--carrier")
      options.carrier = value;
    else if (word == "--library")
      options.library = value;
    else if (word == "--streams")
      options.streams = atoi(value.c_str());
    else if (word == "--source-port")
      options.source_port = atoi(value.c_str());
    else if (word == "--connections")
      options.connections = atoi(value.c_str());
    else if (word == "--bytes")
      options.bytes = strtoull(value.c_str(), nullptr, 10);
    else if (word == "--window")
      options.window = atoi(value.c_str());
    else if (word == "--seconds")
      options.seconds = atof(value.c_str());
    else if (word == "--first-seconds")
      options.first_seconds = atof(value.c_str());
    else if (word == "--round-trips")
      options.round_trips = atoi(value.c_str());
    else
      Fail("unknown option " + word + "; see --help");
  }
  return options;
}

}  // namespace

int main(int count, char** words) {
  const Options options = Read(count, words);
  if (getenv("RANK") == nullptr || getenv("MASTER_ADDR") == nullptr ||
      getenv("MASTER_PORT") == nullptr) {
    Fail("RANK, MASTER_ADDR and MASTER_PORT are not set; see --help");
  }
  Ranks ranks;
  const NetV12* net = nullptr;
  void* context = nullptr;
  if (options.carrier == "plugin") {
    void* const library = dlopen(options.library.c_str(), RTLD_NOW);
    if (library == nullptr) Fail(dlerror());
    net = static_cast<const NetV12*>(dlsym(library, "ncclNetPlugin_v12"));
    if (net == nullptr) Fail("the library has no ncclNetPlugin_v12");
    Check(net->init(&context, 1, nullptr, WriteLog, nullptr), "init");
  }
  const auto make = [&](bool sends) {
    return net == nullptr ? MakeSockets(options, &ranks, sends)
                          : MakePlugin(net, context, &ranks, sends);
  };
  Connections connections;
  for (int i = 0; i < options.connections; ++i) connections.there.push_back(make(ranks.rank == 0));
  if (options.round_trips > 0) connections.back = make(ranks.rank == 1);
  const size_t bytes = static_cast<size_t>(options.connections) *
                       static_cast<size_t>(options.window) * options.bytes;
  char* const data = static_cast<char*>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  memset(data, 1, bytes);
  if (options.registered && net != nullptr) {
    for (auto& connection : connections.there) {
      static_cast<Plugin*>(connection.get())->Register(data, bytes);
    }
  }
  std::string figures;
  if (options.round_trips > 0) {
    const double seconds = RoundTrip(options, &ranks, &connections, data);
    figures = "\"round_trip_us\": " + std::to_string(seconds * 1e6);
  } else {
    const Speeds speeds = Bandwidth(options, &ranks, &connections, data);
    figures = "\"first_bytes_per_second\": " + std::to_string(speeds.at_first) +
              ", \"bytes_per_second\": " + std::to_string(speeds.afterwards);
  }
  if (ranks.rank == 1) {
    printf("{\"carrier\": \"%s\", \"streams\": %d, \"connections\": %d, \"bytes\": %zu, %s}\n",
           options.carrier.c_str(), options.streams, options.connections, options.bytes,
           figures.c_str());
    fflush(stdout);
  }
  // Both are done before either closes.
  measured.store(true);
  ranks.Tell(1);
  ranks.Hear<int>();
  _exit(0);
}
