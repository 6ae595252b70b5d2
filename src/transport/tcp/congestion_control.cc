#include "src/transport/tcp/congestion_control.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "src/base/file_descriptor.h"

namespace harmonaize::transport {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

Status CheckCongestionControl(const std::string& wish) {
  if (wish == kAutomaticCongestionControl || wish == kSystemCongestionControl) return Status::Ok();
  // Setting the option makes the kernel load the module.
  const FileDescriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return ErrnoError(errno, "cannot make a socket");
  if (setsockopt(probe.get(), IPPROTO_TCP, TCP_CONGESTION, wish.data(),
                 static_cast<socklen_t>(wish.size())) == 0) {
    return Status::Ok();
  }
  const int reason = errno;
  return InvalidArgument(
      "the congestion control '{}' cannot be used: {}; this kernel has {}, and there are '{}' and "
      "'{}'",
      wish, std::strerror(reason), FirstLine("/proc/sys/net/ipv4/tcp_available_congestion_control"),
      kAutomaticCongestionControl, kSystemCongestionControl);
}

std::string CongestionControlFor(std::string_view wish, double bytes_per_second,
                                 std::string_view system) {
  if (wish == kSystemCongestionControl) return "";
  if (wish != kAutomaticCongestionControl) return std::string(wish);
  const bool paced = system.starts_with("bbr");
  return std::string(paced && bytes_per_second >= kFastBytesPerSecond ? kUnpacedAlgorithm : "");
}

std::string SystemCongestionControl() {
  return FirstLine("/proc/sys/net/ipv4/tcp_congestion_control");
}

}  // namespace harmonaize::transport
