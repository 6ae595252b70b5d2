#include "perf/fabric/traffic.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "perf/fabric/namespaces.h"
#include "src/probing/plain_traffic.h"
#include "src/topology/fabric/fabric_routing.h"

namespace harmonaize::fabric {
namespace {

using Clock = ProbeClock;

// Most bytes of one send or receive call.
constexpr size_t kPiece = 256 * 1024;
// Fraction of a timed transfer that is not counted.
constexpr double kWarmUp = 0.2;

const std::string& AddressOn(const Fabric& fabric, Endpoint endpoint, int path) {
  const Nic& nic = fabric.NicAt(endpoint);
  return path < 0 ? nic.address : nic.paths[static_cast<size_t>(path)].address;
}

std::string SpaceOf(const Laboratory& laboratory, Endpoint endpoint) {
  return NamespaceName(laboratory.name(),
                       laboratory.fabric().nodes[static_cast<size_t>(endpoint.host)].name);
}

// Sends until `amount` is sent, or the receiver has gone.
void Send(int fd, const Amount& amount) {
  const std::vector<char> piece(kPiece);
  const auto end = Clock::now() + std::chrono::duration<double>(amount.seconds);
  int64_t left = amount.bytes.value_or(0);
  while (amount.bytes ? left > 0 : Clock::now() < end) {
    const size_t size = amount.bytes ? std::min(kPiece, static_cast<size_t>(left)) : piece.size();
    const ssize_t sent = ::send(fd, piece.data(), size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) break;
    left -= sent;
  }
  ::shutdown(fd, SHUT_WR);
}

Result<Transfer> Receive(int fd, const Amount& amount) {
  std::vector<char> piece(kPiece);
  Transfer transfer;
  const double warm_up = amount.bytes ? 0 : amount.seconds * kWarmUp;
  const auto start = Clock::now();
  auto counted_from = start;
  int64_t counted = 0;
  for (;;) {
    pollfd readable{fd, POLLIN, 0};
    const int ready = ::poll(&readable, 1, 10000);
    if (ready == 0) return RemoteError("nothing arrived for ten seconds");
    if (ready < 0) continue;
    const ssize_t got = ::recv(fd, piece.data(), piece.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, "receiving failed");
    if (got == 0) break;
    transfer.bytes += got;
    const auto now = Clock::now();
    if (now - start < std::chrono::duration<double>(warm_up)) {
      counted_from = now;
      counted = 0;
      continue;
    }
    counted += got;
    const double seconds = std::chrono::duration<double>(now - counted_from).count();
    if (seconds > 0) transfer.bytes_per_second = static_cast<double>(counted) / seconds;
  }
  return transfer;
}

[[noreturn]] void CarryFlow(const NamespaceEntry& entry, int sender, int receiver) {
  ::setsid();
  ::prctl(PR_SET_NAME, "fabric-flow");
  if (!entry.Enter()) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  ::dup2(sender, STDERR_FILENO + 1);
  ::dup2(receiver, STDERR_FILENO + 2);
  // This closes, above all, the laboratory's lock, which must not stay taken.
  ::close_range(STDERR_FILENO + 3, ~0u, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::thread sending([] { Send(STDERR_FILENO + 1, {.bytes = int64_t{1} << 62, .seconds = 0}); });
  std::vector<char> piece(kPiece);
  while (::recv(STDERR_FILENO + 2, piece.data(), piece.size(), 0) > 0) {
  }
  ::_exit(0);
}

}  // namespace

Status CheckWay(const Fabric& fabric, const Way& way) {
  if (way.from.host == way.to.host) {
    return InvalidArgument("'{}' and '{}' are one host", fabric.EndpointName(way.from),
                           fabric.EndpointName(way.to));
  }
  if (way.path < -1 || way.path >= fabric.explicit_paths) {
    return InvalidArgument("there is no path {}: the fabric has {} explicit paths", way.path,
                           fabric.explicit_paths);
  }
  if (!FabricRouting(fabric).EqualCostRoutes(way.from, way.to, 1).empty()) return Status::Ok();
  return InvalidArgument("no links lead from '{}' to '{}'", fabric.EndpointName(way.from),
                         fabric.EndpointName(way.to));
}

Result<Connection> Connect(const Laboratory& laboratory, const Way& way,
                           std::chrono::milliseconds patience) {
  const Fabric& fabric = laboratory.fabric();
  const std::string& from = AddressOn(fabric, way.from, way.path);
  const std::string& to = AddressOn(fabric, way.to, way.path);
  Result<TcpListener> listener = TcpListener{};
  HZ_RETURN_IF_ERROR(InNamespace(SpaceOf(laboratory, way.to), [&] {
    listener = ListenOn(to, 1);
    return listener.status();
  }));
  Connection connection;
  const auto deadline = Clock::now() + patience;
  HZ_RETURN_IF_ERROR(InNamespace(SpaceOf(laboratory, way.from), [&] {
    HZ_ASSIGN_OR_RETURN(connection.sender, BeginConnect(from, to, listener->port));
    return FinishConnect(connection.sender, from, to, deadline, StopFlag(false));
  }));
  pollfd ready{listener->fd.get(), POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(patience.count())) <= 0) {
    return RemoteError("{} has not seen the connection from {}", to, from);
  }
  connection.receiver =
      FileDescriptor(::accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.receiver.valid()) return ErrnoError(errno, "cannot accept a connection");
  ::fcntl(connection.sender.get(), F_SETFL, 0);  // what BeginConnect made does not block
  return connection;
}

Result<Transfer> Measure(Connection& connection, const Amount& amount) {
  std::thread sending([&] { Send(connection.sender.get(), amount); });
  Result<Transfer> transfer = Receive(connection.receiver.get(), amount);
  // A sender that is still sending sees the end.
  ::shutdown(connection.receiver.get(), SHUT_RDWR);
  ::shutdown(connection.sender.get(), SHUT_RDWR);
  sending.join();
  return transfer;
}

Result<pid_t> StartFlow(const std::string& space, Connection connection, double bytes_per_second) {
  // TCP paces itself at this rate, so no queue of the kernel needs to take part.
  const uint64_t rate = static_cast<uint64_t>(bytes_per_second);
  if (::setsockopt(connection.sender.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)) !=
      0) {
    return ErrnoError(errno, "cannot set the rate of a flow");
  }
  HZ_ASSIGN_OR_RETURN(const NamespaceEntry entry, NamespaceEntry::Open(space));
  // Moved away from the numbers that the flow gives them.
  const FileDescriptor sender(::fcntl(connection.sender.get(), F_DUPFD_CLOEXEC, 10));
  const FileDescriptor receiver(::fcntl(connection.receiver.get(), F_DUPFD_CLOEXEC, 10));
  if (!sender.valid() || !receiver.valid()) return ErrnoError(errno, "cannot duplicate a socket");
  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoError(errno, "cannot fork");
  if (pid == 0) CarryFlow(entry, sender.get(), receiver.get());
  return pid;
}

}  // namespace harmonaize::fabric
