#include "src/transport/channel_bundle.h"

namespace harmonaize::transport {

Status ChannelBundle::Start() {
  for (const auto& channel : channels_) HZ_RETURN_IF_ERROR(channel->Start());
  return Status::Ok();
}

TcpChannel* ChannelBundle::Choose(const Request& send) {
  TcpChannel* best = channels_.front().get();
  if (send.first_connection || (send.size <= kTinyBytes && !best->waits_for_room())) return best;
  size_t least = best->Owed();
  for (size_t i = 1; i < channels_.size() && least > 0; ++i) {
    const size_t owed = channels_[i]->Owed();
    if (owed >= least) continue;
    least = owed;
    best = channels_[i].get();
  }
  return best;
}

void ChannelBundle::Close(const Status& status) {
  for (const auto& channel : channels_) channel->Close(status);
}

/// A rail is lost with any of its connections.
void ChannelBundle::OnChannelBroken(Channel* /*channel*/, const std::string& reason) {
  owner_->OnChannelBroken(this, reason);
}

}  // namespace harmonaize::transport
