#include "src/executor/network/transport_port.h"

#include <utility>

namespace harmonaize {
namespace {

/// Bits of a tag's step that hold the message's number; its path is above them.
constexpr int kNumberBits = 24;

Result<transport::MessageTag> TagOf(const MessageName& name) {
  const int64_t path = int64_t{name.path} + 1;
  if (name.number >= uint32_t{1} << kNumberBits || path >= int64_t{1} << (32 - kNumberBits)) {
    return InternalError("message {} by path {} cannot be named", name.number, name.path);
  }
  // The check is mixed into the part of the tag that tells messages apart, not into the operation
  // by which Cancel goes. So messages of an operation on which the hosts disagree are canceled with
  // it.
  const uint32_t step = static_cast<uint32_t>(path) << kNumberBits | name.number;
  return transport::MessageTag{
      .operation = name.operation, .step = step ^ name.check, .part = name.slice};
}

}  // namespace

TransportPort::TransportPort(transport::Transport* transport, std::vector<transport::PeerId> peers,
                             ChooseRail choose_rail)
    : transport_(transport), peers_(std::move(peers)), choose_rail_(std::move(choose_rail)) {}

Status TransportPort::Send(const MessageName& name, std::span<const std::byte> data, uint64_t left,
                           MessageListener* listener, uint64_t token) {
  HZ_ASSIGN_OR_RETURN(const transport::MessageTag tag, TagOf(name));
  transport::RailChoice way = choose_rail_(name, data.size());
  way.left = left;
  Pending* const pending = Take(listener, token, data.size());
  const Status posted = transport_->PostSend(peers_[static_cast<size_t>(name.host)], way, tag, data,
                                             {&OnComplete, pending});
  if (!posted.ok()) free_.push_back(pending);
  return posted;
}

Status TransportPort::Receive(const MessageName& name, std::span<std::byte> data,
                              MessageListener* listener, uint64_t token) {
  HZ_ASSIGN_OR_RETURN(const transport::MessageTag tag, TagOf(name));
  Pending* const pending = Take(listener, token, data.size());
  const Status posted = transport_->PostReceive(peers_[static_cast<size_t>(name.host)], tag, data,
                                                {&OnComplete, pending});
  if (!posted.ok()) free_.push_back(pending);
  return posted;
}

void TransportPort::Cancel(uint64_t operation) {
  for (const transport::PeerId peer : peers_) {
    if (peer != 0) transport_->Cancel(peer, operation);
  }
}

void TransportPort::OnComplete(void* context, const Status& status, size_t bytes) {
  auto* const pending = static_cast<Pending*>(context);
  MessageListener* const listener = pending->listener;
  const uint64_t token = pending->token;
  const size_t expected = pending->bytes;
  pending->port->free_.push_back(pending);
  if (status.ok() && bytes != expected) {
    listener->OnMessage(
        token, RemoteError("a message of {} bytes came where {} were due", bytes, expected));
  } else {
    listener->OnMessage(token, status);
  }
}

TransportPort::Pending* TransportPort::Take(MessageListener* listener, uint64_t token,
                                            size_t bytes) {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Pending>());
    free_.push_back(all_.back().get());
  }
  Pending* const pending = free_.back();
  free_.pop_back();
  *pending = {this, listener, token, bytes};
  return pending;
}

}  // namespace harmonaize
