#include "daemon/refused_connections.h"

#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/log.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

/// Whether something lies in the socket that was not received, and may hold descriptors.
bool HoldsMessages(const ControlSocket& socket) {
  pollfd unread{socket.fd(), POLLIN, 0};
  char byte = 0;
  // The end of the stream is readable, too, so it has to be looked at. A look takes no descriptors.
  return poll(&unread, 1, 0) > 0 && recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/// How long a closer waits for the refusal to be read, in rounds of a hundredth of a second.
constexpr int kRoundsForReading = 100;
constexpr timespec kRound = {0, 10'000'000};

/// Closers that wait at a time. With more refusals than they can wait for some connections are
/// closed before they are read.
constexpr size_t kMostClosers = 8;

/// Whether what was sent has been read, or never will be.
bool IsRead(const ControlSocket& socket) {
  int unread = 0;
  return ioctl(socket.fd(), SIOCOUTQ, &unread) != 0 || unread == 0;
}

/// The signal by which a closer learns that its descriptors are the last ones.
constexpr int kAlone = SIGUSR1;

/// What a closer does: it closes all descriptors but these, waits until it alone has them and
/// everybody has read why he was refused, and ends. It was forked by one of several threads, so it
/// calls the kernel alone.
[[noreturn]] void KeepOnly(const std::vector<ControlSocket>& sockets, const sigset_t& alone) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  unsigned next = 0;
  for (const ControlSocket& socket : sockets) {
    const auto kept = static_cast<unsigned>(socket.fd());
    if (kept > next) close_range(next, kept - 1, 0);
    next = kept + 1;
  }
  close_range(next, ~0u, 0);
  sigwaitinfo(&alone, nullptr);
  for (int round = 0; round < kRoundsForReading; ++round) {
    if (std::all_of(sockets.begin(), sockets.end(), IsRead)) break;
    nanosleep(&kRound, nullptr);
  }
  _exit(0);
}

/// Forks a process that keeps the sockets until it is sent kAlone, and then for as long as they are
/// to be read; -1 where that fails.
pid_t StartCloser(const std::vector<ControlSocket>& sockets) {
  sigset_t alone;
  sigemptyset(&alone);
  sigaddset(&alone, kAlone);
  sigset_t before;
  // So that it is not lost if it comes before the closer waits for it.
  pthread_sigmask(SIG_BLOCK, &alone, &before);
  const pid_t closer = fork();
  if (closer == 0) KeepOnly(sockets, alone);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return closer;
}

}  // namespace

RefusedConnections::~RefusedConnections() {
  CloseWaiting();
}

void RefusedConnections::Refuse(ControlSocket socket, const Status& why) {
  static_cast<void>(socket.Send(EncodeFailure(MessageType::kHello, why), {}));
  // Nothing can come after this.
  shutdown(socket.fd(), SHUT_RD);
  if (HoldsMessages(socket)) waiting_.push_back(std::move(socket));
}

// The closer has all our descriptors. We close ours and tell it; the last references go with it.
// The kernel does not wait for a socket to linger when a process ends, and if anything else keeps
// the closer, it is no thread of ours. It keeps no descriptor of others meanwhile. Who is refused
// is to read why: a connection that is closed while something lies in it ends with an error in
// place of what was sent over it before.
void RefusedConnections::CloseWaiting() {
  std::erase_if(closers_, [](pid_t closer) { return waitpid(closer, nullptr, WNOHANG) != 0; });
  if (waiting_.empty()) return;
  // The oldest ones. They are not waited for: a stranger may keep one from ending.
  for (size_t i = 0; i + kMostClosers <= closers_.size(); ++i) kill(closers_[i], SIGKILL);
  std::sort(waiting_.begin(), waiting_.end(),
            [](const ControlSocket& a, const ControlSocket& b) { return a.fd() < b.fd(); });
  closers_.reserve(closers_.size() + 1);
  const pid_t closer = StartCloser(waiting_);
  if (closer < 0) {
    return Log(LogLevel::kError, kLogInit, "{}",
               ErrnoError(errno, "cannot start a process").message());
  }
  waiting_.clear();
  kill(closer, kAlone);
  closers_.push_back(closer);
}

}  // namespace harmonaize::daemon
