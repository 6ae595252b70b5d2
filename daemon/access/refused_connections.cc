#include "daemon/access/refused_connections.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "daemon/runtime/close_elsewhere.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

/// Most connections whose other side has been told why and has not read it. Each costs a descriptor
/// and a kilobyte of the kernel's memory.
constexpr size_t kMostRefusedTold = 2048;
/// Most such connections of one user, so that no user takes all of these places.
constexpr int64_t kMostToldOfAUser = 256;

/// Shortest time between two closings, in nanoseconds: each makes a process, which takes
/// milliseconds if the daemon has much memory mapped.
constexpr uint64_t kEveryNanoseconds = 100'000'000;
/// Waiting connections from which on they are closed earlier than that.
constexpr size_t kMostWaiting = 1024;

}  // namespace

RefusedConnections::~RefusedConnections() {
  CloseAll();
}

void RefusedConnections::CloseAll() {
  for (Told& told : told_) waiting_.push_back(told.socket.TakeDescriptor());
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
  const bool tells = told_.size() < kMostRefusedTold && unread < kMostToldOfAUser;
  if (tells) static_cast<void>(socket.Send(reply, {}));
  // Nothing can arrive after this. What has arrived may hold descriptors, and no check can rule
  // that out: a message may be empty, and an error may hide one.
  shutdown(socket.fd(), SHUT_RD);
  if (tells && socket.HasUnread()) {
    told_.push_back({std::move(socket), user});
  } else {
    waiting_.push_back(socket.TakeDescriptor());
  }
}

void RefusedConnections::LetGoOfWhatWasRead() {
  for (size_t i = 0; i < told_.size();) {
    if (told_[i].socket.HasUnread()) {
      ++i;
      continue;
    }
    waiting_.push_back(told_[i].socket.TakeDescriptor());
    told_[i] = std::move(told_.back());
    told_.pop_back();
  }
}

int RefusedConnections::TimeoutMs() const {
  if (told_.empty() && waiting_.empty()) return -1;
  const uint64_t now_ns = MonotonicNanoseconds();
  return now_ns >= next_ns_ ? 0 : static_cast<int>((next_ns_ - now_ns) / 1'000'000) + 1;
}

void RefusedConnections::CloseWaiting() {
  const uint64_t now_ns = MonotonicNanoseconds();
  if (now_ns < next_ns_ && waiting_.size() < kMostWaiting) return;
  next_ns_ = now_ns + kEveryNanoseconds;
  LetGoOfWhatWasRead();
  if (waiting_.empty()) return;
  const Status closed = CloseElsewhere(&waiting_);
  if (!closed.ok()) Log(LogLevel::kError, kLogInit, "{}", closed.message());
}

}  // namespace harmonaize::daemon
