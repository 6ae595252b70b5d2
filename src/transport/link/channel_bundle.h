#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/transport/link/connection_choice.h"
#include "src/transport/tcp/tcp_channel.h"

namespace harmonaize::transport {

/// One rail that is several TCP connections, among which routers that hash ports see several flows.
/// A message is on one of them, as ConnectionChoice says. Tiny messages, and those that ask for it,
/// go on the first connection: in order, and without a question to the kernel. What comes over any
/// of them is its channel's alone; the bundle only chooses.
class ChannelBundle final : public Channel,
                            private Channel::Owner,
                            private ConnectionChoice::Connections {
 public:
  /// Up to here a message takes the first connection: that costs less than to look around.
  static constexpr size_t kTinyBytes = size_t{4} << 10;

  /// `owner` must outlive the bundle.
  explicit ChannelBundle(Channel::Owner* owner) : owner_(owner), choice_(this) {}

  /// Who owns the channels: for their constructor.
  Channel::Owner* channel_owner() { return this; }
  /// One at least, before Start.
  void Add(std::unique_ptr<TcpChannel> channel);

  Status Start() override;
  void Send(Request* send) override;
  void Close(const Status& status) override;
  uint64_t received_bytes() const override;
  RailTraffic Traffic() const override;
  /// All connections together keep to them.
  void Limit(const RailLimits& limits) override;

  // Requests and arrivals name the channel of their connection.
  void Accept(Arrival* offer, Request* receive) override { offer->channel->Accept(offer, receive); }
  void Refuse(Arrival* offer) override { offer->channel->Refuse(offer); }
  void OnConsumed(Arrival* arrival) override { arrival->channel->OnConsumed(arrival); }
  void Abort(Request* request, const Status& status) override {
    request->channel->Abort(request, status);
  }

 private:
  Backlog BacklogOf(size_t connection, uint64_t now_ns) override {
    return channels_[connection]->BacklogAt(now_ns);
  }
  void OnChannelBroken(Channel* channel, const std::string& reason) override;

  Channel::Owner* const owner_;
  std::vector<std::unique_ptr<TcpChannel>> channels_;
  ConnectionChoice choice_;
};

}  // namespace harmonaize::transport
