#include "src/probing/plain_traffic.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace harmonaize {
namespace {

// Most bytes of one send or receive call.
constexpr size_t kPiece = 128 * 1024;
// Longest wait for a socket before the end and the stop flag are checked again.
constexpr int kLookMilliseconds = 5;

Result<sockaddr_in> AddressOf(const std::string& dotted, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, dotted.c_str(), &address.sin_addr) != 1) {
    return InvalidArgument("'{}' is not an IPv4 address", dotted);
  }
  return address;
}

Result<FileDescriptor> BoundSocket(const std::string& dotted) {
  HZ_ASSIGN_OR_RETURN(const sockaddr_in address, AddressOf(dotted, 0));
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a socket");
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) != 0) {
    return ErrnoError(errno, "cannot bind " + dotted);
  }
  return fd;
}

Status CannotConnect(int error, const std::string& from, const std::string& to) {
  return Status(Code::kRemoteError,
                ErrnoError(error, fmt::format("{} cannot connect to {}", from, to)).message());
}

/// Calls `serve` with the index of each socket that is ready; it returns whether the socket is
/// still of use.
template <typename Serve>
void PollUntil(const std::vector<int>& descriptors, short events, ProbeClock::time_point end,
               const StopFlag& stop, Serve serve) {
  std::vector<pollfd> sockets;
  for (const int fd : descriptors) sockets.push_back({fd, events, 0});
  while (ProbeClock::now() < end && !stop.load(std::memory_order_relaxed)) {
    if (::poll(sockets.data(), sockets.size(), kLookMilliseconds) <= 0) continue;
    for (size_t i = 0; i < sockets.size(); ++i) {
      if (sockets[i].revents == 0) continue;
      // A connection that is gone carries nothing more, which its rate shows.
      if (!serve(i)) sockets[i].fd = -1;
    }
  }
}

bool MayGoOn(ssize_t moved) {
  return moved > 0 || (moved < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

Result<TcpListener> ListenOn(const std::string& address, int backlog) {
  HZ_ASSIGN_OR_RETURN(FileDescriptor fd, BoundSocket(address));
  sockaddr_in bound{};
  socklen_t length = sizeof(bound);
  if (::listen(fd.get(), backlog) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return ErrnoError(errno, "cannot listen at " + address);
  }
  return TcpListener{std::move(fd), ntohs(bound.sin_port)};
}

Result<FileDescriptor> BeginConnect(const std::string& from, const std::string& to, uint16_t port) {
  HZ_ASSIGN_OR_RETURN(const sockaddr_in address, AddressOf(to, port));
  Result<FileDescriptor> fd = BoundSocket(from);
  if (!fd.ok()) return fd;
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) != 0 &&
      errno != EINPROGRESS) {
    return CannotConnect(errno, from, to);
  }
  return fd;
}

Status FinishConnect(const FileDescriptor& socket, const std::string& from, const std::string& to,
                     ProbeClock::time_point deadline, const StopFlag& stop) {
  pollfd writable{socket.get(), POLLOUT, 0};
  while (::poll(&writable, 1, kLookMilliseconds) <= 0) {
    if (stop.load(std::memory_order_relaxed)) return CannotConnect(ECANCELED, from, to);
    if (ProbeClock::now() >= deadline) return CannotConnect(ETIMEDOUT, from, to);
  }
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? Status::Ok() : CannotConnect(error, from, to);
}

void SendUntil(const std::vector<int>& sockets, ProbeClock::time_point end, const StopFlag& stop) {
  const std::vector<char> piece(kPiece);
  PollUntil(sockets, POLLOUT, end, stop, [&](size_t i) {
    return MayGoOn(::send(sockets[i], piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  });
}

std::vector<int64_t> CountUntil(const std::vector<int>& sockets,
                                ProbeClock::time_point counted_from, ProbeClock::time_point end,
                                const StopFlag& stop) {
  std::vector<int64_t> bytes(sockets.size());
  std::vector<char> piece(kPiece);
  PollUntil(sockets, POLLIN, end, stop, [&](size_t i) {
    const ssize_t got = ::recv(sockets[i], piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0 && ProbeClock::now() >= counted_from) bytes[i] += got;
    return MayGoOn(got);
  });
  return bytes;
}

ProbeClock::time_point After(ProbeClock::time_point start, double seconds) {
  return start +
         std::chrono::duration_cast<ProbeClock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace harmonaize
