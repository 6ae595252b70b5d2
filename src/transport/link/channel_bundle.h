#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/transport/link/connection_choice.h"
#include "src/transport/tcp/tcp_channel.h"

namespace harmonaize::transport {

/// One rail that consists of several TCP connections, so that routers that hash ports see several
/// flows. ConnectionChoice decides which connection a message takes. Tiny messages, and those that
/// ask for it, take the first connection: in order, and without asking the kernel. Arriving
/// messages are handled by the connection's channel alone.
class ChannelBundle final : public Channel,
                            private Channel::Owner,
                            private ConnectionChoice::Connections {
 public:
  /// A message of up to this many bytes takes the first connection, which costs less than choosing.
  static constexpr size_t kTinyBytes = size_t{4} << 10;

  /// `owner` must outlive the bundle.
  explicit ChannelBundle(Channel::Owner* owner) : owner_(owner), choice_(this) {}

  /// Returns the owner to be passed to the channels' constructors.
  Channel::Owner* channel_owner() { return this; }
  /// Adds a connection. Requires: it is called before Start, at least once.
  void Add(std::unique_ptr<TcpChannel> channel);

  Status Start() override;
  void Send(Request* send) override;
  void Close(const Status& status) override;
  uint64_t received_bytes() const override;
  RailTraffic Traffic() const override;
  /// Sets limits that all connections keep to together.
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
