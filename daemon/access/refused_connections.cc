#include "daemon/access/refused_connections.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

/// The connections, of all users and of one, whose other side has been told why and has not read
/// it. Each costs a descriptor and a kilobyte of the kernel's memory.
constexpr size_t kMostTold = 2048;
constexpr int64_t kMostToldOfAUser = 256;

/// How often connections are closed, in nanoseconds, unless so many wait: a process is made for
/// those that hold messages, which takes milliseconds when the daemon has much memory mapped.
constexpr uint64_t kEveryNanoseconds = 100'000'000;
constexpr size_t kMostWaiting = 1024;

/// Whether something lies in the socket that was not received, and may hold descriptors.
bool HoldsMessages(const ControlSocket& socket) {
  pollfd unread{socket.fd(), POLLIN, 0};
  char byte = 0;
  // The end of the stream is readable, too, so it has to be looked at. A look takes no descriptors.
  return poll(&unread, 1, 0) > 0 && recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/// What the process does: it closes all descriptors but these, and waits to be killed.
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
  for (Told& told : told_) Part(std::move(told.socket));
  next_ns_ = 0;
  CloseWaiting();
}

void RefusedConnections::Refuse(ControlSocket socket, const Status& why) {
  const Result<PeerCredentials> peer = socket.Peer();
  const uid_t user = peer.ok() ? peer->user : 0;
  const auto unread = std::count_if(told_.begin(), told_.end(),
                                    [user](const Told& told) { return told.user == user; });
  const bool tells = told_.size() < kMostTold && unread < kMostToldOfAUser;
  if (tells) static_cast<void>(socket.Send(EncodeFailure(MessageType::kHello, why), {}));
  // Nothing can come after this.
  shutdown(socket.fd(), SHUT_RD);
  if (!tells || !socket.HasUnread()) return Part(std::move(socket));
  told_.push_back({std::move(socket), user});
}

void RefusedConnections::Part(ControlSocket socket) {
  if (HoldsMessages(socket)) waiting_.push_back(std::move(socket));
}

void RefusedConnections::LetGoOfWhatWasRead() {
  for (size_t i = 0; i < told_.size();) {
    if (told_[i].socket.HasUnread()) {
      ++i;
      continue;
    }
    Part(std::move(told_[i].socket));
    told_[i] = std::move(told_.back());
    told_.pop_back();
  }
}

int RefusedConnections::TimeoutMs() const {
  if (told_.empty() && waiting_.empty()) return -1;
  const uint64_t now_ns = MonotonicNanoseconds();
  return now_ns >= next_ns_ ? 0 : static_cast<int>((next_ns_ - now_ns) / 1'000'000) + 1;
}

// A process that only waits has all our descriptors. We close ours, and it is killed: the last
// references go with it. The kernel does not wait for a socket to linger when a process ends, and
// if anything else keeps this one, it is no thread of ours. It keeps no descriptor of others
// meanwhile.
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
