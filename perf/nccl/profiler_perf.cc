// Measures what NCCL's profiler plugin costs for an event, and below which rate none is lost. It
// calls the plugin as NCCL does (version 6 of the interface), beside a daemon:
//
//     harmonaize run -n 1 --daemon=private --no-preload -- nccl_profiler_perf LIBRARY [SECONDS]
//
// LIBRARY is libnccl-profiler-harmonaize.so with its folder.

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/nccl-profiler/v6.h"
#include "src/base/clock.h"
#include "src/base/json_text.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/http_client.h"
#include "src/ipc/profile_record.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {
namespace {

using nccl_abi::ProfilerEventV6;
using nccl_abi::ProfilerStateV4;
using nccl_abi::ProfilerV6;

constexpr char kJob[] = "nccl_profiler_perf";

/// Events that are written without a pause: a quarter of a ring, so that none is lost.
constexpr int kBurst = 4096;
/// Pause, in milliseconds, after which the daemon has read a burst: two of its turns.
constexpr int kReadMs = 45;
/// Bursts for each figure; the median of them is printed.
constexpr int kBursts = 21;

/// A communicator as NCCL has it.
class Communicator {
 public:
  explicit Communicator(const char* library) {
    void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) {
      fmt::print(stderr, "{}\n", dlerror());
      std::exit(1);
    }
    table_ = static_cast<ProfilerV6*>(dlsym(opened, "ncclProfiler_v6"));
    table_->init(&context_, 7, &mask_, "world", 1, 8, 0, nullptr);
  }
  ~Communicator() { table_->finalize(context_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int mask() const { return mask_; }

  void Pair() {
    ProfilerEventV6 event = Of(kProfileGroups);
    Stop(Start(event));
  }
  /// An all-reduce with its group, `channels` kernels, and a send and a receive for each channel.
  void AllReduce(int channels) {
    ProfilerEventV6 event = Of(kProfileGroups);
    void* const group = Start(event);
    event = Of(kProfileCollectives);
    auto& collective_event = event.collective;
    collective_event.function = "AllReduce";
    collective_event.count = 1 << 20;
    collective_event.type = "ncclFloat32";
    collective_event.channels = static_cast<uint8_t>(channels);
    collective_event.algorithm = "RING";
    collective_event.protocol = "SIMPLE";
    void* const collective = Start(event);
    Stop(collective);
    Stop(group);
    for (int channel = 0; channel < channels; ++channel) {
      void* const send = Proxy(collective, 1);
      void* const receive = Proxy(collective, 0);
      Kernel(collective);
      Stop(send);
      Stop(receive);
    }
  }

 private:
  static ProfilerEventV6 Of(uint64_t type, void* parent = nullptr) {
    ProfilerEventV6 event;
    std::memset(&event, 0, sizeof event);  // All of the union, as NCCL has it.
    event.type = type;
    event.parent = parent;
    return event;
  }
  void* Start(ProfilerEventV6& event) {
    void* handle = nullptr;
    table_->start_event(context_, &handle, &event);
    return handle;
  }
  void Stop(void* handle) { table_->stop_event(handle); }
  void* Proxy(void* parent, int is_send) {
    ProfilerEventV6 event = Of(kProfileProxyOperations, parent);
    event.proxy.process = getpid();
    event.proxy.steps = 4;
    event.proxy.chunk_bytes = 1 << 19;
    event.proxy.is_send = is_send;
    return Start(event);
  }
  void Kernel(void* parent) {
    ProfilerEventV6 event = Of(kProfileKernels, parent);
    event.kernel.timer = 1'000'000;
    void* const handle = Start(event);
    ProfilerStateV4 state{};
    state.kernel.timer = 1'050'000;
    constexpr int kKernelStopped = 22;
    table_->record_event_state(handle, kKernelStopped, &state);
    Stop(handle);
  }

  ProfilerV6* table_ = nullptr;
  void* context_ = nullptr;
  int mask_ = 0;
};

/// Events of the job that came, and that were lost, as the daemon says.
std::pair<uint64_t, uint64_t> Told() {
  Result<FileDescriptor> socket = FindDaemonHttp(ClientSocketPlaces());
  if (!socket.ok()) return {0, 0};
  const Result<HttpReply> reply =
      CallHttp(*socket, {.target = fmt::format("/v1/jobs/{}/profile", kJob)}, 10'000);
  if (!reply.ok() || reply->status != 200) return {0, 0};
  const auto document = ReadJson(reply->body);
  return {document.value("events", uint64_t{0}), document.value("lost", uint64_t{0})};
}

void Pause() {
  std::this_thread::sleep_for(std::chrono::milliseconds(kReadMs));
}

/// Returns the median time of `call`, in nanoseconds, over bursts of `calls` with pauses in
/// between.
template <typename Call>
double TimeOf(int calls, const Call& call) {
  std::vector<double> times;
  for (int burst = 0; burst < kBursts; ++burst) {
    const uint64_t begun_ns = MonotonicNanoseconds();
    for (int i = 0; i < calls; ++i) call();
    times.push_back(static_cast<double>(MonotonicNanoseconds() - begun_ns) / calls);
    Pause();
  }
  std::nth_element(times.begin(), times.begin() + kBursts / 2, times.end());
  return times[kBursts / 2];
}

/// Returns the same for pairs of several threads at once, for each thread.
double TimeOfThreads(Communicator& communicator, int threads) {
  std::vector<double> times(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (double& time : times) {
    running.emplace_back([&] { time = TimeOf(kBurst / threads, [&] { communicator.Pair(); }); });
  }
  for (std::thread& thread : running) thread.join();
  return *std::max_element(times.begin(), times.end());
}

/// Without a daemon NCCL asks for no events; this is what it would cost if it did.
void PrintWithoutDaemon(const char* library) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock", 1);
    Communicator communicator(library);
    fmt::print("without a daemon: mask {:#x}, so NCCL calls nothing; start and stop {:.1f} ns\n",
               communicator.mask(), TimeOf(kBurst, [&] { communicator.Pair(); }));
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

/// Writes pairs at this rate for `seconds`. Returns how many were lost.
uint64_t LostAt(Communicator& communicator, double rate, double seconds) {
  const uint64_t before = Told().second;
  const uint64_t begun_ns = MonotonicNanoseconds();
  const auto all = static_cast<uint64_t>(rate * seconds);
  for (uint64_t written = 0; written < all;) {
    const double due = static_cast<double>(MonotonicNanoseconds() - begun_ns) * 1e-9 * rate;
    for (; written < all && static_cast<double>(written) < due; ++written) communicator.Pair();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  Pause();
  Pause();
  return Told().second - before;
}

void Measure(const char* library, double seconds) {
  PrintWithoutDaemon(library);
  Communicator communicator(library);
  if (communicator.mask() == 0) {
    fmt::print(stderr, "no daemon wants events: HARMONAIZE_SOCKET names one\n");
    std::exit(1);
  }
  fmt::print("with a daemon: mask {:#x}\n", communicator.mask());
  fmt::print("  start and stop            {:8.1f} ns\n",
             TimeOf(kBurst, [&] { communicator.Pair(); }));
  for (const int threads : {2, 4}) {
    fmt::print("  the same of {} threads     {:8.1f} ns\n", threads,
               TimeOfThreads(communicator, threads));
  }
  for (const int channels : {1, 2, 16}) {
    const int events = 2 + 3 * channels;
    const double time =
        TimeOf(kBurst / (2 + 2 * channels), [&] { communicator.AllReduce(channels); });
    fmt::print("  all-reduce, {:2} channels   {:8.1f} ns  ({} events, {:.1f} ns each)\n", channels,
               time, events, time / events);
  }
  fmt::print("rate of events, for {} s each\n", seconds);
  for (const double rate : {100e3, 200e3, 400e3, 600e3, 800e3, 1.2e6, 1.6e6}) {
    fmt::print("  {:9.0f} /s  {} lost\n", rate, LostAt(communicator, rate, seconds));
    fflush(stdout);
  }
}

}  // namespace
}  // namespace harmonaize

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} LIBRARY [SECONDS]\n", argv[0]);
    return 2;
  }
  setenv("HARMONAIZE_JOB", harmonaize::kJob, 1);
  harmonaize::Measure(argv[1], argc > 2 ? std::atof(argv[2]) : 2);
  return 0;
}
