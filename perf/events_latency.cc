// Latency of events: the time from a cause, an operator's POST /v1/events, until each of many
// streams of GET /v1/events has the event. perf/events_latency.py starts what it needs.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "src/base/file_descriptor.h"

namespace harmonaize {
namespace {

/// The text before the time of the cause, in the event's data.
constexpr std::string_view kMark = "cause at ";
/// Longest time that an event may take before it counts as lost, in milliseconds.
constexpr int kPatienceMs = 10'000;
/// Streams opened a second: a daemon takes 50 requests a second from a caller.
constexpr int kOpensPerSecond = 45;

struct Options {
  std::string streams_at;
  std::string cause_at;
  std::string job;
  int streams = 1000;
  int events = 100;
  int interval_ms = 100;
};

uint64_t Now() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

FileDescriptor ConnectTo(const std::string& path) {
  FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

/// Many streams, read by one thread.
class Streams {
 public:
  explicit Streams(const Options& options)
      : options_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

  /// Opens them, as fast as the daemon lets one caller ask. Returns whether all are open.
  bool Open() {
    const std::string request = fmt::format(
        "GET /v1/events?follow=true&from=now&job={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        options_.job);
    for (int i = 0; i < options_.streams; ++i) {
      FileDescriptor fd = ConnectTo(options_.streams_at);
      if (!fd.valid() ||
          write(fd.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
        return false;
      }
      std::array<char, 4096> head;
      const ssize_t got = read(fd.get(), head.data(), head.size());
      const std::string_view answer(head.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
      if (!answer.starts_with("HTTP/1.1 200")) {
        fmt::print(stderr, "stream {}: {}\n", i, answer);
        return false;
      }
      fcntl(fd.get(), F_SETFL, O_NONBLOCK);
      epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<uint32_t>(i)}};
      if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return false;
      sockets_.push_back(std::move(fd));
      std::this_thread::sleep_for(std::chrono::microseconds(1'000'000 / kOpensPerSecond));
    }
    return true;
  }

  /// Reads until each stream has the event of this cause. Returns the latencies in nanoseconds, one
  /// for each stream that has it in time.
  std::vector<uint64_t> Await(uint64_t cause) {
    const std::string wanted = fmt::format("{}{}", kMark, cause);
    std::vector<uint64_t> latencies;
    std::array<epoll_event, 256> ready;
    std::array<char, 16384> bytes;
    while (latencies.size() < sockets_.size() &&
           Now() - cause < uint64_t{kPatienceMs} * 1'000'000) {
      const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 100);
      for (int i = 0; i < count; ++i) {
        const int fd = sockets_[ready[static_cast<size_t>(i)].data.u32].get();
        const ssize_t got = read(fd, bytes.data(), bytes.size());
        // An event of some 500 bytes comes in one piece.
        const std::string_view text(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
        if (text.find(wanted) != std::string_view::npos) latencies.push_back(Now() - cause);
        if (got == 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
      }
    }
    return latencies;
  }

 private:
  const Options options_;
  FileDescriptor epoll_;
  std::vector<FileDescriptor> sockets_;
};

/// Tells the job of an event, with the time of the cause in it. Returns whether that was granted.
bool Cause(const Options& options, uint64_t cause) {
  const FileDescriptor socket = ConnectTo(options.cause_at);
  const std::string body =
      fmt::format(R"({{"job": "{}", "type": "daemon.restarted", "data": {{"text": "{}{}"}}}})",
                  options.job, kMark, cause);
  const std::string request = fmt::format(
      "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
  if (!socket.valid() ||
      write(socket.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
    return false;
  }
  std::array<char, 4096> head;
  const ssize_t got = read(socket.get(), head.data(), head.size());
  const std::string_view answer(head.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (answer.starts_with("HTTP/1.1 200")) return true;
  fmt::print(stderr, "the event was not taken: {}\n", answer);
  return false;
}

double Quantile(const std::vector<uint64_t>& sorted, double part) {
  const auto place = static_cast<size_t>(part * static_cast<double>(sorted.size() - 1));
  return static_cast<double>(sorted[place]) * 1e-6;
}

int Run(const Options& options) {
  const rlimit files{16384, 16384};
  setrlimit(RLIMIT_NOFILE, &files);
  Streams streams(options);
  if (!streams.Open()) return 1;
  std::vector<uint64_t> all;
  std::vector<uint64_t> last;  // by event: of the stream that had it last
  size_t lost = 0;
  for (int i = 0; i < options.events; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(options.interval_ms));
    const uint64_t cause = Now();
    bool taken = false;
    std::thread poster([&] { taken = Cause(options, cause); });
    const std::vector<uint64_t> latencies = streams.Await(cause);
    poster.join();
    if (!taken) return 1;
    lost += static_cast<size_t>(options.streams) - latencies.size();
    all.insert(all.end(), latencies.begin(), latencies.end());
    if (!latencies.empty()) last.push_back(latencies.back());
  }
  std::sort(all.begin(), all.end());
  std::sort(last.begin(), last.end());
  if (all.empty()) return 1;
  fmt::print(
      "{} streams, {} events: median {:.2f} ms, p99 {:.2f} ms, most {:.2f} ms; the last stream of "
      "an event, median {:.2f} ms; {} lost\n",
      options.streams, options.events, Quantile(all, 0.5), Quantile(all, 0.99), Quantile(all, 1),
      Quantile(last, 0.5), lost);
  return lost == 0 ? 0 : 1;
}

}  // namespace
}  // namespace harmonaize

int main(int argc, char** argv) {
  harmonaize::Options options;
  CLI::App app("Latency from a cause to the streams of events of a daemon");
  app.add_option("--streams-at", options.streams_at, "The tenants' HTTP socket")->required();
  app.add_option("--cause-at", options.cause_at, "The operators' HTTP socket")->required();
  app.add_option("--job", options.job, "The job's id")->required();
  app.add_option("--streams", options.streams);
  app.add_option("--events", options.events);
  app.add_option("--interval", options.interval_ms, "Milliseconds between two events");
  CLI11_PARSE(app, argc, argv);
  return harmonaize::Run(options);
}
