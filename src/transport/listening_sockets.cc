#include "src/transport/listening_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace harmonaize::transport {
namespace {

bool HasOption(int socket, int option, int value) {
  int found = 0;
  socklen_t length = sizeof found;
  return getsockopt(socket, SOL_SOCKET, option, &found, &length) == 0 && found == value;
}

bool ListensForTcp(int socket) {
  return HasOption(socket, SO_PROTOCOL, IPPROTO_TCP) && HasOption(socket, SO_ACCEPTCONN, 1);
}

void SetFlags(int socket) {
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

Result<FileDescriptor> Open(const NetworkAddress& address,
                            const ListeningSockets::Prepare& prepare) {
  const auto failure = [&address](const char* what) {
    return ErrnoError(errno, fmt::format("cannot {} {}", what, address.ToString()));
  };
  FileDescriptor fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return failure("make a socket for");
  const int on = 1;
  // A restarted daemon can take its port again at once.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (prepare) prepare(fd.get());
  if (bind(fd.get(), address.get(), address.length()) == 0 && listen(fd.get(), SOMAXCONN) == 0) {
    return fd;
  }
  if (errno != EADDRINUSE) return failure("listen at");
  return Unavailable(
      "cannot listen at {}: another process has this port (`ss -ltnp 'sport = :{}'` names it)",
      address.ToString(), address.port());
}

}  // namespace

NetworkAddress BoundAddress(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return NetworkAddress::From(reinterpret_cast<const sockaddr*>(&address));
}

ListeningSockets::ListeningSockets(std::vector<FileDescriptor> passed_on) {
  for (FileDescriptor& socket : passed_on) {
    if (!ListensForTcp(socket.get())) continue;
    SetFlags(socket.get());
    const NetworkAddress address = BoundAddress(socket.get());
    passed_on_.push_back({address, std::move(socket)});
  }
}

Result<FileDescriptor> ListeningSockets::Listen(const NetworkAddress& address,
                                                const Prepare& prepare) {
  const std::lock_guard lock(mutex_);
  FileDescriptor socket = TakePassedOn(address);
  if (socket.valid()) {
    if (prepare) prepare(socket.get());
  } else {
    HZ_ASSIGN_OR_RETURN(socket, Open(address, prepare));
  }
  if (address.port() == 0) return socket;
  FileDescriptor copy(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return ErrnoError(errno, "cannot copy the socket at " + address.ToString());
  copies_.push_back(std::move(copy));
  return socket;
}

FileDescriptor ListeningSockets::TakePassedOn(const NetworkAddress& address) {
  const auto found = std::ranges::find_if(passed_on_, [&address](const PassedOn& one) {
    return one.address.SameHost(address) && one.address.port() == address.port();
  });
  if (found == passed_on_.end()) return {};
  FileDescriptor socket = std::move(found->socket);
  passed_on_.erase(found);
  return socket;
}

std::vector<NetworkAddress> ListeningSockets::CloseUnused() {
  const std::lock_guard lock(mutex_);
  std::vector<NetworkAddress> addresses;
  for (const PassedOn& one : passed_on_) addresses.push_back(one.address);
  passed_on_.clear();
  return addresses;
}

std::vector<FileDescriptor> ListeningSockets::TakeCopies() {
  const std::lock_guard lock(mutex_);
  return std::exchange(copies_, {});
}

}  // namespace harmonaize::transport
