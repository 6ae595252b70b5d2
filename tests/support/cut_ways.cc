#include "tests/support/cut_ways.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>

namespace harmonaize::testing {
namespace {

/// Calls `act` with each TCP socket of this process that has this address.
template <typename Act>
void ForEachSocketAt(const std::string& address, Act act) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in local{};
    socklen_t length = sizeof local;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    if (local.sin_family != AF_INET) continue;
    if (local.sin_addr.s_addr == inet_addr(address.c_str())) act(fd);
  }
}

}  // namespace

void CutWays::Cut(const std::string& address, const std::string& from) {
  cut_.insert(address);
  constexpr uint32_t kSource = static_cast<uint32_t>(SKF_NET_OFF) + 12;  // in an IPv4 header
  sock_filter drop[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSource),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(inet_addr(from.c_str())), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog programme =
      from.empty() ? sock_fprog{1, drop + 3} : sock_fprog{std::size(drop), drop};
  ForEachSocketAt(address, [&](int fd) {
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &programme, sizeof programme);
  });
}

void CutWays::Mend(std::string address) {
  cut_.erase(address);
  const int unused = 0;
  ForEachSocketAt(address, [&](int fd) {
    setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
  });
}

}  // namespace harmonaize::testing
