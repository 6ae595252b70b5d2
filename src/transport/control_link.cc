#include "src/transport/control_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

// Then others have their turn.
constexpr int kReadsAtOnce = 8;

}  // namespace

ControlLink::ControlLink(Poller* poller, Owner* owner, FileDescriptor socket)
    : poller_(poller),
      owner_(owner),
      socket_(std::move(socket)),
      last_heard_ns_(MonotonicNanoseconds()),
      last_sent_ns_(last_heard_ns_) {}

Status ControlLink::Start() {
  return poller_->Add(socket_.get(), EPOLLIN, this);
}

void ControlLink::Send(FrameType type, std::span<const std::byte> payload) {
  if (closing_ || !broken_.empty() || !socket_.valid()) return;
  if (unsent_.size() + payload.size() > kMaxUnsentBytes) {
    return Break(
        fmt::format("it does not read: {} bytes of control messages wait for it", unsent_.size()));
  }
  AppendFrame(type, payload, &unsent_);
  if (!waits_for_room_) Flush();
}

void ControlLink::Send(FrameType type, const std::string& text) {
  Send(type, std::as_bytes(std::span(text)));
}

void ControlLink::Flush() {
  size_t done = 0;
  while (done < unsent_.size()) {
    const ssize_t sent =
        send(socket_.get(), unsent_.data() + done, unsent_.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return Break(std::strerror(errno));
    done += static_cast<size_t>(sent);
  }
  if (done > 0) last_sent_ns_ = MonotonicNanoseconds();
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<ptrdiff_t>(done));
  const bool waits = !unsent_.empty();
  if (waits != waits_for_room_) {
    waits_for_room_ = waits;
    poller_->Change(socket_.get(), waits ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
  }
  if (closing_ && !waits) shutdown(socket_.get(), SHUT_WR);
}

void ControlLink::CloseGently() {
  if (closing_ || !broken_.empty()) return;
  closing_ = true;
  if (!waits_for_room_) Flush();
}

void ControlLink::Close() {
  if (!socket_.valid()) return;
  poller_->Remove(socket_.get(), this);
  socket_.Reset();
}

void ControlLink::OnReady(uint32_t events) {
  if (!broken_.empty()) return ReportBreak();
  if ((events & EPOLLOUT) != 0) Flush();
  if (broken_.empty() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read();
  ReportBreak();
}

void ControlLink::Read() {
  std::array<std::byte, size_t{16} << 10> bytes;
  for (int i = 0; i < kReadsAtOnce && socket_.valid() && broken_.empty(); ++i) {
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return Break(std::strerror(errno));
    if (got == 0) return Break("it closed the connection");
    last_heard_ns_ = MonotonicNanoseconds();
    if (closing_) continue;
    reader_.Append(std::span(bytes).first(static_cast<size_t>(got)));
    HandOut();
    if (static_cast<size_t>(got) < bytes.size()) return;
  }
}

void ControlLink::HandOut() {
  while (broken_.empty() && !closing_ && socket_.valid()) {
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
