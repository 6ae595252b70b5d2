#include "tests/support/cut_ways.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>

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

void CutWays::Cut(const std::string& address) {
  cut_.insert(address);
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog programme{1, &drop_all};
  ForEachSocketAt(address, [&](int fd) {
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &programme, sizeof programme);
  });
}

void CutWays::Mend(const std::string& address) {
  cut_.erase(address);
  const int unused = 0;
  ForEachSocketAt(address, [&](int fd) {
    setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
  });
}

}  // namespace harmonaize::testing
