#include "src/transport/link/control_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

// Reads from one link before others have their turn.
constexpr int kReadsAtOnce = 8;

}  // namespace

ControlLink::ControlLink(Poller* poller, Owner* owner, FileDescriptor socket)
    : poller_(poller),
      owner_(owner),
      stream_(std::move(socket)),
      last_heard_ns_(MonotonicNanoseconds()),
      last_sent_ns_(last_heard_ns_) {}

Status ControlLink::Start() {
  return poller_->Add(stream_.fd(), EPOLLIN, this);
}

void ControlLink::Send(FrameType type, std::span<const std::byte> payload) {
  Append(kOwnMessages, type, payload);
}

void ControlLink::Send(FrameType type, const std::string& text) {
  Send(type, std::as_bytes(std::span(text)));
}

Status ControlLink::SendMessage(ControlSender sender, std::span<const std::byte> message) {
  if (sender != kOwnMessages && !unsent_.HasRoom(sender, message.size())) {
    return Unavailable("{} bytes of control messages wait for a daemon that does not keep up",
                       unsent_.size());
  }
  Append(sender, FrameType::kMessage, message);
  return Status::Ok();
}

void ControlLink::Append(ControlSender sender, FrameType type, std::span<const std::byte> payload) {
  if (closing_ || !broken_.empty() || !stream_.open()) return;
  if (!unsent_.HasRoom(sender, payload.size())) {
    return Break(
        fmt::format("it does not read: {} bytes of control messages wait for it", unsent_.size()));
  }
  unsent_.Append(sender, type, payload);
  if (!waits_for_room_) Flush();
}

/// Writes what the socket takes. Returns the number of bytes written.
size_t ControlLink::WriteUnsent() {
  size_t done = 0;
  while (!unsent_.empty()) {
    const std::span<const std::byte> waiting = unsent_.bytes();
    iovec part{const_cast<std::byte*>(waiting.data()), waiting.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t sent = stream_.Write(message);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      Break(std::strerror(errno));
      break;
    }
    unsent_.Drop(static_cast<size_t>(sent));
    done += static_cast<size_t>(sent);
  }
  return done;
}

void ControlLink::Flush() {
  if (stream_.frozen()) return;
  const ssize_t owed = stream_.WriteOwed();
  if (owed < 0) return Break(std::strerror(errno));
  const size_t done = WriteUnsent();
  if (!broken_.empty()) return;
  if (owed > 0 || done > 0) last_sent_ns_ = MonotonicNanoseconds();
  const bool waits = stream_.owes() || !unsent_.empty();
  if (waits != waits_for_room_) {
    waits_for_room_ = waits;
    poller_->Change(stream_.fd(), waits ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
  }
  if (closing_ && !waits) shutdown(stream_.fd(), SHUT_WR);
}

void ControlLink::CloseGently() {
  if (closing_ || !broken_.empty()) return;
  closing_ = true;
  if (!waits_for_room_) Flush();
}

void ControlLink::Close() {
  if (!stream_.open()) return;
  poller_->Remove(stream_.fd(), this);
  stream_.Close();
}

void ControlLink::OnReady(uint32_t events) {
  if (!broken_.empty()) return ReportBreak();
  if ((events & EPOLLOUT) != 0) Flush();
  if (broken_.empty() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read();
  ReportBreak();
}

void ControlLink::Read() {
  std::array<std::byte, size_t{16} << 10> bytes;
  for (int i = 0; i < kReadsAtOnce && stream_.open() && broken_.empty(); ++i) {
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t got = stream_.Read(&message);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0 && stream_.frozen()) return;  // the other side may have left it
    if (got < 0) return Break(std::strerror(errno));
    if (got == 0) return Break("it closed the connection");
    last_heard_ns_ = MonotonicNanoseconds();
    if (closing_) continue;
    reader_.Append(std::span(bytes).first(static_cast<size_t>(got)));
    HandOut();
    if (static_cast<size_t>(got) < bytes.size()) return;
  }
}

Status ControlLink::Freeze() {
  if (stream_.frozen()) return Status::Ok();
  HZ_RETURN_IF_ERROR(stream_.Freeze());
  poller_->Remove(stream_.fd(), this);
  return Status::Ok();
}

uint64_t ControlLink::Drain() {
  uint64_t before = 0;
  do {
    before = stream_.read_bytes();
    Read();
  } while (stream_.read_bytes() != before);
  return stream_.read_bytes();
}

Status ControlLink::Continue(FileDescriptor socket, uint64_t expected) {
  HZ_RETURN_IF_ERROR(stream_.Continue(std::move(socket), expected));
  HZ_RETURN_IF_ERROR(poller_->Add(stream_.fd(), EPOLLIN, this));
  waits_for_room_ = false;
  Flush();
  return Status::Ok();
}

void ControlLink::HandOut() {
  while (broken_.empty() && !closing_ && stream_.open()) {
    Result<std::optional<Frame>> frame = reader_.Next();
    if (!frame.ok()) return Break(frame.status().message());
    if (!frame->has_value()) return;
    owner_->OnFrame(this, **frame);
  }
}

void ControlLink::Break(std::string reason) {
  if (!broken_.empty()) return;
  broken_ = std::move(reason);
}

void ControlLink::ReportBreak() {
  if (!HasNews()) return;
  reported_ = true;
  Close();
  owner_->OnBroken(this, broken_);
}

}  // namespace harmonaize::transport
