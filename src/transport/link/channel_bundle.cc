#include "src/transport/link/channel_bundle.h"

#include <algorithm>
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

RailTraffic ChannelBundle::Traffic() const {
  RailTraffic all;
  uint64_t most = 0;
  uint64_t most_received = 0;
  for (const auto& channel : channels_) {
    const RailTraffic one = channel->Traffic();
    all.connections += one.connections;
    all.sent_bytes += one.sent_bytes;
    all.received_bytes += one.received_bytes;
    all.sent_packets += one.sent_packets;
    all.resent_packets += one.resent_packets;
    for (const JobTraffic& job : one.jobs) AddJobTraffic(job, &all.jobs);
    all.busy_seconds = std::max(all.busy_seconds, one.busy_seconds);
    if (one.received_bytes >= most_received) {
      most_received = one.received_bytes;
      all.arrival_queue_seconds = one.arrival_queue_seconds;
    }
    if (one.sent_bytes < most) continue;
    most = one.sent_bytes;
    all.round_trip_seconds = one.round_trip_seconds;
    all.least_round_trip_seconds = one.least_round_trip_seconds;
  }
  return all;
}

void ChannelBundle::Limit(const RailLimits& limits) {
  for (const auto& channel : channels_) {
    channel->SharePaces(channels_[0]->paces());
    channel->Limit(limits);
  }
}

/// Reports the rail broken: it is lost with any of its connections.
void ChannelBundle::OnChannelBroken(Channel* /*channel*/, const std::string& reason) {
  owner_->OnChannelBroken(this, reason);
}

}  // namespace harmonaize::transport
