#include "src/transport/stream/movable_stream.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

// Milliseconds without an answer before a way can count as stalled.
constexpr uint32_t kStalledMs = 300;
// Timeouts in a row with which it then counts as stalled. On a crowded way single losses are
// detected by the packets behind them, and a packet that was sent again by timeout is rarely lost
// again.
constexpr uint32_t kStalledTimeouts = 2;
// Milliseconds after which a way counts as stalled whatever the timeouts: after congestion the
// kernel waits for seconds before it sends again.
constexpr uint32_t kLongStallMs = 700;
// Switches repair mode off without the window probe that a process moved to another host would
// send.
constexpr int kRepairOffSilently = -1;
// Bytes of the longest packet: the first kept one may be acknowledged in part, and is kept whole.
constexpr size_t kLongestPacket = size_t{256} << 10;

bool SetRepair(int socket, int value) {
  return setsockopt(socket, IPPROTO_TCP, TCP_REPAIR, &value, sizeof value) == 0;
}

}  // namespace

bool MovableStream::Movable() {
  const FileDescriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return probe.valid() && SetRepair(probe.get(), 1);
}

ssize_t MovableStream::Write(const msghdr& message) {
  if (frozen_ || owes()) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (sent > 0) {
    NoteHeld();
    written_bytes_ += static_cast<uint64_t>(sent);
    over_this_ += static_cast<uint64_t>(sent);
  }
  return sent;
}

ssize_t MovableStream::Read(msghdr* message) {
  const iovec& first = message->msg_iov[0];
  // recv makes the kernel do less than recvmsg.
  const ssize_t got = message->msg_iovlen == 1
                          ? recv(socket_.get(), first.iov_base, first.iov_len, 0)
                          : recvmsg(socket_.get(), message, 0);
  if (got > 0) read_bytes_ += static_cast<uint64_t>(got);
  return got;
}

ssize_t MovableStream::WriteOwed() {
  ssize_t all = 0;
  while (!frozen_ && owes()) {
    const ssize_t sent = send(socket_.get(), owed_.data() + owed_written_,
                              owed_.size() - owed_written_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN ? all : -1;
    NoteHeld();
    owed_written_ += static_cast<size_t>(sent);
    over_this_ += static_cast<uint64_t>(sent);
    all += sent;
  }
  if (!owes()) std::vector<std::byte>().swap(owed_);
  if (owed_.empty()) owed_written_ = 0;
  return all;
}

void MovableStream::NoteHeld() {
  if (held_) return;
  held_ = true;
  held_since_ns_ = MonotonicNanoseconds();
}

bool MovableStream::Stalled() {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (!held_ || !open() || frozen_ ||
      getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
    return false;
  }
  held_ = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
  const uint64_t held_ms = (MonotonicNanoseconds() - held_since_ns_) / 1'000'000;
  const uint64_t waits_ms = std::min<uint64_t>(info.tcpi_last_ack_recv, held_ms);
  if (waits_ms < kStalledMs) return false;
  if (info.tcpi_unacked > 0) {
    const uint32_t long_ms = std::max(kLongStallMs, 2 * info.tcpi_rtt / 1000);
    return info.tcpi_retransmits >= kStalledTimeouts || waits_ms >= long_ms;
  }
  // Bytes that cannot leave this host, because its own cable is cut, are not under way for the
  // kernel. It sends probes as to a receiver without room; but such a receiver would answer.
  return info.tcpi_notsent_bytes > 0 && info.tcpi_probes >= kStalledTimeouts;
}

/// Returns the last bytes written that the kernel holds: sent or not, but not acknowledged.
Result<std::vector<std::byte>> MovableStream::TakeBack() const {
  if (!SetRepair(socket_.get(), 1)) return ErrnoError(errno, "cannot take back what was sent");
  const int queue = TCP_SEND_QUEUE;
  int held = 0;
  ssize_t got = -1;
  std::vector<std::byte> bytes;
  if (setsockopt(socket_.get(), IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof queue) == 0 &&
      ioctl(socket_.get(), SIOCOUTQ, &held) == 0) {
    bytes.resize(static_cast<size_t>(std::max(held, 0)) + kLongestPacket);
    got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  }
  const int why = errno;
  SetRepair(socket_.get(), kRepairOffSilently);
  if (got < 0) return ErrnoError(why, "cannot take back what was sent");
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

Status MovableStream::Freeze() {
  if (frozen_) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(std::vector<std::byte> held, TakeBack());
  // Bytes exchanged before the stream went on over this connection are not part of the stream.
  const size_t of_stream = std::min<uint64_t>(held.size(), over_this_);
  std::vector<std::byte> owed(held.end() - static_cast<ptrdiff_t>(of_stream), held.end());
  owed.insert(owed.end(), owed_.begin() + static_cast<ptrdiff_t>(owed_written_), owed_.end());
  owed_.swap(owed);
  owed_written_ = 0;
  frozen_ = true;
  return Status::Ok();
}

Status MovableStream::Continue(FileDescriptor socket, uint64_t expected) {
  const uint64_t kept_from = written_bytes_ - owed_.size();
  if (!frozen_ || expected < kept_from || expected > written_bytes_) {
    return RemoteError("it expects byte {} of a stream of which bytes {} to {} are left", expected,
                       kept_from, written_bytes_);
  }
  owed_.erase(owed_.begin(), owed_.begin() + static_cast<ptrdiff_t>(expected - kept_from));
  // The other side has frozen its end, so what the old connection still holds is useless.
  const linger abort{1, 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  socket_ = std::move(socket);
  over_this_ = 0;
  held_ = true;
  held_since_ns_ = MonotonicNanoseconds();
  frozen_ = false;
  return Status::Ok();
}

}  // namespace harmonaize::transport
