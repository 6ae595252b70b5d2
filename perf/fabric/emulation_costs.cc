#include "perf/fabric/emulation_costs.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "perf/fabric/network_plan.h"
#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "src/base/processors.h"

namespace harmonaize::fabric {
namespace {

constexpr size_t kMessageBytes = 64;
// Round trips in a batch; the median of the batches counts.
constexpr int kMessagesABatch = 50;
constexpr uint64_t kMeasuredNanoseconds = 20'000'000;

// Costs as multiples of a small message's time, fitted to collectives of 8 B and 1 KiB on all
// shipped fabrics, on two machines of which one takes twice as long for everything. A third
// machine, which takes long to wake a thread, needed 2.7 for the second.
constexpr double kMessageShare = 1.7;
constexpr double kHandlingShare = 1.8;

struct Ends {
  FileDescriptor one;
  FileDescriptor other;
};

Result<Ends> ConnectOverLoopback() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Ends ends{FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), {}};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const bool connected =
      listener.valid() && ends.one.valid() && bind(listener.get(), generic, size) == 0 &&
      listen(listener.get(), 1) == 0 && getsockname(listener.get(), generic, &size) == 0 &&
      connect(ends.one.get(), generic, size) == 0;
  if (connected)
    ends.other = FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!ends.other.valid()) return ErrnoError(errno, "cannot connect over loopback");
  const int on = 1;
  for (const FileDescriptor* end : {&ends.one, &ends.other}) {
    if (setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
      return ErrnoError(errno, "cannot send small messages at once");
    }
  }
  return ends;
}

/// Passes one message. Returns whether all of it came. Loopback delivers before send returns.
bool Pass(const FileDescriptor& from, const FileDescriptor& to) {
  std::array<std::byte, kMessageBytes> message{};
  return send(from.get(), message.data(), message.size(), MSG_NOSIGNAL) == ssize_t{kMessageBytes} &&
         recv(to.get(), message.data(), message.size(), MSG_WAITALL) == ssize_t{kMessageBytes};
}

}  // namespace

Result<double> MeasureMessage() {
  HZ_ASSIGN_OR_RETURN(const Ends ends, ConnectOverLoopback());
  std::vector<uint64_t> batches;
  const uint64_t begin = MonotonicNanoseconds();
  uint64_t now = begin;
  while (now < begin + kMeasuredNanoseconds) {
    const uint64_t batch = now;
    for (int i = 0; i < kMessagesABatch; ++i) {
      if (!Pass(ends.one, ends.other) || !Pass(ends.other, ends.one)) {
        return ErrnoError(errno, "a message over loopback did not come");
      }
    }
    now = MonotonicNanoseconds();
    batches.push_back(now - batch);
  }
  const auto middle = batches.begin() + static_cast<std::ptrdiff_t>(batches.size() / 2);
  std::nth_element(batches.begin(), middle, batches.end());
  return static_cast<double>(*middle) * 1e-9 / (2 * kMessagesABatch);
}

StatedCosts EmulationCosts(double message_seconds) {
  StatedCosts costs;
  costs.message_us = kMessageShare * message_seconds * 1e6;
  costs.handling_us = kHandlingShare * message_seconds * 1e6;
  costs.shared_processors = static_cast<int64_t>(UsableProcessors().size());
  // Fitted to all-reduces of 64 MiB between two hosts without a limit between them.
  costs.wire_gbps = 3;
  costs.bucket_ms = kBucketSeconds * 1e3;
  return costs;
}

}  // namespace harmonaize::fabric
