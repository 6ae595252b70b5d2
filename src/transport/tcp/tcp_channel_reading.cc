// Reads from a TCP channel, frame by frame.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"
#include "src/memory/fault_guard.h"
#include "src/memory/missing_pages.h"
#include "src/transport/tcp/tcp_channel.h"

namespace harmonaize::transport {
namespace {

// Bytes that one connection may read before others have their turn.
constexpr size_t kReadBytesAtOnce = size_t{2} << 20;

Status ReceiverGaveUp() {
  return RemoteError("the receiving daemon does not want this message any more");
}
Status SenderGaveUp() {
  return RemoteError("the sending daemon gave this message up");
}

}  // namespace

void TcpChannel::Read() {
  size_t budget = kReadBytesAtOnce;
  while (!failed_) {
    const size_t before = payload_left_ + sizeof input_;
    if (!Receive()) return;
    Digest();
    if (budget <= before) return;
    budget -= before;
  }
}

/// Reads once: first into the payload's place, then into the input. Returns whether more may wait.
bool TcpChannel::Receive() {
  if (input_start_ == input_end_) input_start_ = input_end_ = 0;
  if (input_start_ > 0) {
    std::memmove(input_.data(), input_.data() + input_start_, input_end_ - input_start_);
    input_end_ -= input_start_;
    input_start_ = 0;
  }
  const bool direct = target_ != nullptr && payload_left_ > 0;
  iovec parts[2] = {{target_, direct ? payload_left_ : 0},
                    {input_.data() + input_end_, input_.size() - input_end_}};
  msghdr message{};
  message.msg_iov = direct ? parts : parts + 1;
  message.msg_iovlen = direct ? 2 : 1;
  const ssize_t got = stream_.Read(&message);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  if (got < 0 && errno == EFAULT && direct &&
      FoundLoss([this] { TouchPages(target_, payload_left_); })) {
    return true;
  }
  if (got <= 0) {
    // The other side may have left a drained connection.
    if (stream_.frozen()) return false;
    Fail(got == 0 ? "the other daemon closed the connection" : std::strerror(errno));
    return false;
  }
  auto bytes = static_cast<size_t>(got);
  received_ns_ = MonotonicNanoseconds();
  const bool full = bytes == parts[1].iov_len + (direct ? parts[0].iov_len : 0);
  if (direct) {
    const size_t placed = std::min(bytes, payload_left_);
    target_ += placed;
    payload_left_ -= placed;
    bytes -= placed;
    if (payload_left_ == 0) OnPayload();
  }
  input_end_ += bytes;
  if (!full) Digest();
  return full;
}

/// Parses the bytes in the input.
void TcpChannel::Digest() {
  while (!failed_) {
    const size_t held = input_end_ - input_start_;
    if (payload_left_ > 0) {
      if (held == 0) return;
      const size_t taken = std::min(held, payload_left_);
      if (target_ != nullptr) {
        std::memcpy(target_, input_.data() + input_start_, taken);
        target_ += taken;
      }
      input_start_ += taken;
      payload_left_ -= taken;
      if (payload_left_ == 0) OnPayload();
      continue;
    }
    if (held < sizeof(Header)) return;
    Header header;
    std::memcpy(&header, input_.data() + input_start_, sizeof header);
    input_start_ += sizeof header;
    OnHeader(header);
  }
}

void TcpChannel::OnHeader(const Header& header) {
  arrival_delay_.Note(header.sent_ns, received_ns_);
  switch (header.type) {
    case kEager: return OnEager(header);
    case kBulk: return OnBulk(header);
    default: break;
  }
  if (header.payload != 0) return Violation("a short frame with a payload");
  switch (header.type) {
    case kOffer: return OnOffer(header);
    case kClear: return OnClear(header);
    case kStop: return OnStop(header);
    case kAbandon: return OnAbandon(header);
    case kConsumed:
      if (header.total > eager_unconsumed_) return Violation("more consumed than was sent");
      eager_unconsumed_ -= header.total;
      return;
    default: return Violation("a frame of unknown type");
  }
}

void TcpChannel::Violation(const char* what) {
  Fail(fmt::format("the other daemon broke the protocol: {}", what));
}

/// Directs the next `bytes` of the stream to `target`.
void TcpChannel::TakePayload(std::byte* target, size_t bytes, Request* request, Arrival* arrival) {
  target_ = target;
  payload_bytes_ = payload_left_ = bytes;
  target_request_ = request;
  filling_ = arrival;
  if (bytes == 0) OnPayload();
}

void TcpChannel::OnEager(const Header& header) {
  if (header.payload > kMaxEagerBytes || header.total != header.payload) {
    return Violation("a small message that is not small");
  }
  payload_is_eager_ = true;
  if (board_->IsCancelled(peer_, header.tag.operation)) {
    return TakePayload(nullptr, header.payload, nullptr, nullptr);
  }
  Request* receive = board_->TakePosted(peer_, header.tag);
  if (receive != nullptr && receive->size < header.total) {
    board_->Complete(receive, TooLarge(*receive, header.total));
    return TakePayload(nullptr, header.payload, nullptr, nullptr);
  }
  if (receive != nullptr) {
    receive->channel = this;
    receive->total = header.total;
    return TakePayload(receive->data, header.payload, receive, nullptr);
  }
  Arrival* arrival = board_->NewArrival(peer_, header.tag, header.total);
  arrival->channel = this;
  arrival->data.resize(header.payload);
  TakePayload(arrival->data.data(), header.payload, nullptr, arrival);
}

void TcpChannel::OnOffer(const Header& header) {
  Arrival* offer = board_->NewArrival(peer_, header.tag, header.total);
  offer->channel = this;
  offer->offered = true;
  offer->remote_slot = header.answer;
  if (board_->IsCancelled(peer_, header.tag.operation)) return Refuse(offer);
  Request* receive = board_->TakePosted(peer_, header.tag);
  if (receive == nullptr) return board_->AddArrival(offer);
  if (receive->size < header.total) {
    board_->Complete(receive, TooLarge(*receive, header.total));
    return Refuse(offer);
  }
  Accept(offer, receive);
}

void TcpChannel::OnClear(const Header& header) {
  Request* send = board_->Find(header.slot);
  if (send == nullptr) {
    // The send was given up while the receiver got ready.
    return Note(kAbandon, header.tag, header.answer, header.slot);
  }
  if (!send->is_send || send->channel != this || send->state != Request::State::kOffered) {
    return Violation("readiness for a message that was not offered");
  }
  send->state = Request::State::kStreaming;
  send->remote_slot = header.answer;
  queue_.PushBulk(send);
}

void TcpChannel::OnBulk(const Header& header) {
  payload_is_eager_ = false;
  if (header.payload > kBulkBytes) return Violation("a frame beyond the agreed size");
  Request* receive = board_->Find(header.slot);
  // The receive was given up here; the sender will learn of it soon.
  if (receive == nullptr) return TakePayload(nullptr, header.payload, nullptr, nullptr);
  if (receive->is_send || receive->channel != this || receive->state != Request::State::kMoving ||
      header.answer != receive->moved || header.payload > receive->total - receive->moved ||
      (header.payload == 0 && receive->total != 0)) {
    return Violation("a frame that does not follow the one before");
  }
  TakePayload(receive->data + receive->moved, header.payload, receive, nullptr);
}

void TcpChannel::OnStop(const Header& header) {
  Request* send = board_->Find(header.slot);
  if (send == nullptr) return;  // it had ended already
  if (!send->is_send || send->channel != this) return Violation("an end of what was not offered");
  Detach(send);
  board_->Complete(send, ReceiverGaveUp());
}

void TcpChannel::OnAbandon(const Header& header) {
  if (header.slot == 0) {
    // If it is not found, it was accepted meanwhile, and the answer to that will name the receive's
    // slot.
    Arrival* offer = board_->TakeOffer(peer_, header.tag, header.answer);
    if (offer != nullptr) board_->Free(offer);
    return;
  }
  Request* receive = board_->Find(header.slot);
  if (receive == nullptr) return;
  if (receive->is_send || receive->channel != this) return Violation("an end of what never began");
  board_->Complete(receive, SenderGaveUp());
}

/// Handles a payload that has arrived completely.
void TcpChannel::OnPayload() {
  Request* receive = target_request_;
  Arrival* arrival = filling_;
  target_request_ = nullptr;
  filling_ = nullptr;
  target_ = nullptr;
  if (arrival != nullptr) return OnArrivalComplete(arrival);
  if (payload_is_eager_) Consumed(payload_bytes_);
  if (receive == nullptr) return;
  receive->moved += payload_bytes_;
  if (receive->moved == receive->total) board_->Complete(receive, Status::Ok());
}

void TcpChannel::OnArrivalComplete(Arrival* arrival) {
  // While it arrived, its receive may have been posted, or its operation cancelled.
  Request* receive = board_->TakePosted(peer_, arrival->tag);
  if (receive == nullptr && !board_->IsCancelled(peer_, arrival->tag.operation)) {
    return board_->AddArrival(arrival);
  }
  if (receive != nullptr && receive->size < arrival->total) {
    board_->Complete(receive, TooLarge(*receive, arrival->total));
  } else if (receive != nullptr) {
    std::copy(arrival->data.begin(), arrival->data.end(), receive->data);
    receive->moved = receive->total = arrival->total;
    board_->Complete(receive, Status::Ok());
  }
  Consumed(arrival->total);
  board_->Free(arrival);
}

}  // namespace harmonaize::transport
