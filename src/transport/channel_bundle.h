#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/transport/tcp_channel.h"

namespace harmonaize::transport {

/// One rail that is several TCP connections, among which routers that hash ports see several flows.
/// A message is on one of them: on the first that owes nothing, else on the one that owes least
/// (join the shortest queue; Winston, "Optimality of the shortest line discipline", 1977). A
/// connection whose way is crowded is slow to pay, so ways get what they carry, and nobody has to
/// know which they are.
///
/// Tiny messages, and those that ask for it, go on the first connection: in order, and without
/// looking around. What comes over any of them is its channel's alone; the bundle only chooses.
class ChannelBundle final : public Channel, private Channel::Owner {
 public:
  /// Up to here a message takes the first connection unless that one waits for room: it costs less
  /// than asking the kernel what is unpaid.
  static constexpr size_t kTinyBytes = size_t{4} << 10;

  /// `owner` must outlive the bundle.
  explicit ChannelBundle(Channel::Owner* owner) : owner_(owner) {}

  /// Who owns the channels: for their constructor.
  Channel::Owner* channel_owner() { return this; }
  /// One at least, before Start.
  void Add(std::unique_ptr<TcpChannel> channel) { channels_.push_back(std::move(channel)); }

  Status Start() override;
  void Send(Request* send) override { Choose(*send)->Send(send); }
  void Close(const Status& status) override;

  // Requests and arrivals name the channel of their connection.
  void Accept(Arrival* offer, Request* receive) override { offer->channel->Accept(offer, receive); }
  void Refuse(Arrival* offer) override { offer->channel->Refuse(offer); }
  void OnConsumed(Arrival* arrival) override { arrival->channel->OnConsumed(arrival); }
  void Abort(Request* request, const Status& status) override {
    request->channel->Abort(request, status);
  }

 private:
  TcpChannel* Choose(const Request& send);
  void OnChannelBroken(Channel* channel, const std::string& reason) override;

  Channel::Owner* const owner_;
  std::vector<std::unique_ptr<TcpChannel>> channels_;
};

}  // namespace harmonaize::transport
