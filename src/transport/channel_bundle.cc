#include "src/transport/channel_bundle.h"

#include <utility>

#include "src/base/clock.h"

namespace harmonaize::transport {

void ChannelBundle::Add(std::unique_ptr<TcpChannel> channel) {
  channels_.push_back(std::move(channel));
  choice_.Add();
}

Status ChannelBundle::Start() {
  for (const auto& channel : channels_) HZ_RETURN_IF_ERROR(channel->Start());
  return Status::Ok();
}

void ChannelBundle::Send(Request* send) {
  const bool first = send->first_connection || send->size <= kTinyBytes;
  channels_[first ? 0 : choice_.Choose(send->size, MonotonicNanoseconds())]->Send(send);
}

void ChannelBundle::Close(const Status& status) {
  for (const auto& channel : channels_) channel->Close(status);
}

uint64_t ChannelBundle::received_bytes() const {
  uint64_t bytes = 0;
  for (const auto& channel : channels_) bytes += channel->received_bytes();
  return bytes;
}

/// A rail is lost with any of its connections.
void ChannelBundle::OnChannelBroken(Channel* /*channel*/, const std::string& reason) {
  owner_->OnChannelBroken(this, reason);
}

}  // namespace harmonaize::transport
