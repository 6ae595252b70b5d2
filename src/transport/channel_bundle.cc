#include "src/transport/channel_bundle.h"

#include <algorithm>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

// Longer than the bursts that messages are posted in.
constexpr uint64_t kPeriodNs = 5'000'000;

}  // namespace

Status ChannelBundle::Start() {
  for (const auto& channel : channels_) HZ_RETURN_IF_ERROR(channel->Start());
  return Status::Ok();
}

TcpChannel* ChannelBundle::Choose(const Request& send) {
  TcpChannel* best = channels_.front().get();
  if (send.first_connection || (send.size <= kTinyBytes && !best->waits_for_room())) return best;
  const uint64_t now = MonotonicNanoseconds();
  CountRate(now, send.size);
  double least = 0;
  for (const auto& channel : channels_) {
    const TcpChannel::Backlog backlog = channel->BacklogAt(now);
    const double before = BytesBefore(backlog);
    if (before <= static_cast<double>(kNothingBytes)) return channel.get();
    if (channel != channels_.front() && before >= least) continue;
    least = before;
    best = channel.get();
  }
  return best;
}

/// In bytes of which the whole rail carries as much in the same time: a connection that shares its
/// way with many others is slow.
double ChannelBundle::BytesBefore(const TcpChannel::Backlog& backlog) const {
  const bool slow = backlog.bytes_per_ns > 0 && backlog.bytes_per_ns < bytes_per_ns_;
  const double slower = slow ? bytes_per_ns_ / backlog.bytes_per_ns : 1;
  return static_cast<double>(backlog.bytes) * slower +
         static_cast<double>(backlog.queueing_ns) * bytes_per_ns_;
}

/// A pause of the sender is no slow rail: a rate is forgotten slowly.
void ChannelBundle::CountRate(uint64_t now_ns, size_t bytes) {
  const uint64_t past = now_ns - period_start_ns_;
  if (past >= kPeriodNs) {
    bytes_per_ns_ = std::max(static_cast<double>(period_bytes_) / static_cast<double>(past),
                             bytes_per_ns_ * 7 / 8);
    period_start_ns_ = now_ns;
    period_bytes_ = 0;
  }
  period_bytes_ += bytes;
}

void ChannelBundle::Close(const Status& status) {
  for (const auto& channel : channels_) channel->Close(status);
}

/// A rail is lost with any of its connections.
void ChannelBundle::OnChannelBroken(Channel* /*channel*/, const std::string& reason) {
  owner_->OnChannelBroken(this, reason);
}

}  // namespace harmonaize::transport
