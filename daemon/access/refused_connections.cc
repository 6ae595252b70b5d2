#include "daemon/access/refused_connections.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

/// Most connections whose other side has been told why and has not read it. Each costs a descriptor
/// and a kilobyte of the kernel's memory.
constexpr size_t kMostTold = 2048;
/// Most such connections of one user, so that no user takes all of these places.
constexpr int64_t kMostToldOfAUser = 256;

/// Shortest time between two closings, in nanoseconds: each makes a process, which takes
/// milliseconds if the daemon has much memory mapped.
constexpr uint64_t kEveryNanoseconds = 100'000'000;
/// Waiting connections from which on they are closed earlier than that.
constexpr size_t kMostWaiting = 1024;

/// Keeps only these descriptors open, and waits to be killed. Runs in the closing process.
[[noreturn]] void KeepOnly(const std::vector<ControlSocket>& sockets) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  unsigned next = 0;
  for (const ControlSocket& socket : sockets) {
    const auto kept = static_cast<unsigned>(socket.fd());
    if (kept > next) close_range(next, kept - 1, 0);
    next = kept + 1;
  }
  close_range(next, ~0u, 0);
  while (true) pause();
}

}  // namespace

RefusedConnections::~RefusedConnections() {
  CloseAll();
}

void RefusedConnections::CloseAll() {
  for (Told& told : told_) waiting_.push_back(std::move(told.socket));
  told_.clear();
  next_ns_ = 0;
  CloseWaiting();
}

void RefusedConnections::Refuse(ControlSocket socket, const Status& why) {
  RefuseWith(std::move(socket), EncodeFailure(MessageType::kHello, why));
}

void RefusedConnections::RefuseHttp(ControlSocket socket, const Status& why) {
  const std::string reply = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}\n",
      why.message().size() + 1, why.message());
  RefuseWith(std::move(socket), std::as_bytes(std::span(reply)));
}

void RefusedConnections::RefuseWith(ControlSocket socket, std::span<const std::byte> reply) {
  const Result<PeerCredentials> peer = socket.Peer();
  const uid_t user = peer.ok() ? peer->user : 0;
  const auto unread = std::count_if(told_.begin(), told_.end(),
                                    [user](const Told& told) { return told.user == user; });
  const bool tells = told_.size() < kMostTold && unread < kMostToldOfAUser;
  if (tells) static_cast<void>(socket.Send(reply, {}));
  // Nothing can arrive after this. What has arrived may hold descriptors, and no check can rule
  // that out: a message may be empty, and an error may hide one.
  shutdown(socket.fd(), SHUT_RD);
  if (tells && socket.HasUnread()) {
    told_.push_back({std::move(socket), user});
  } else {
    waiting_.push_back(std::move(socket));
  }
}

void RefusedConnections::LetGoOfWhatWasRead() {
  for (size_t i = 0; i < told_.size();) {
    if (told_[i].socket.HasUnread()) {
      ++i;
      continue;
    }
    waiting_.push_back(std::move(told_[i].socket));
    told_[i] = std::move(told_.back());
    told_.pop_back();
  }
}

int RefusedConnections::TimeoutMs() const {
  if (told_.empty() && waiting_.empty()) return -1;
  const uint64_t now_ns = MonotonicNanoseconds();
  return now_ns >= next_ns_ ? 0 : static_cast<int>((next_ns_ - now_ns) / 1'000'000) + 1;
}

// Forks a process that has all descriptors of the daemon and only waits. The daemon closes its own
// and kills the process, with which the last references go. The kernel does not wait for a socket
// to linger when a process ends, and if anything else delays the process's end, no thread of the
// daemon waits with it. The process keeps no descriptors of others meanwhile.
void RefusedConnections::CloseWaiting() {
  const uint64_t now_ns = MonotonicNanoseconds();
  if (now_ns < next_ns_ && waiting_.size() < kMostWaiting) return;
  next_ns_ = now_ns + kEveryNanoseconds;
  std::erase_if(closers_, [](pid_t closer) { return waitpid(closer, nullptr, WNOHANG) != 0; });
  LetGoOfWhatWasRead();
  if (waiting_.empty()) return;
  std::sort(waiting_.begin(), waiting_.end(),
            [](const ControlSocket& a, const ControlSocket& b) { return a.fd() < b.fd(); });
  closers_.reserve(closers_.size() + 1);
  const pid_t closer = fork();
  if (closer == 0) KeepOnly(waiting_);
  if (closer < 0) {
    return Log(LogLevel::kError, kLogInit, "{}",
               ErrnoError(errno, "cannot start a process").message());
  }
  waiting_.clear();
  kill(closer, SIGKILL);
  closers_.push_back(closer);
}

}  // namespace harmonaize::daemon
