#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/transport/tcp_channel.h"

namespace harmonaize::transport {

/// One rail that is several TCP connections, among which routers that hash ports see several flows.
/// A message is on one of them: on the first that has nothing before it, else on the one that has
/// least (join the shortest queue; Winston, "Optimality of the shortest line discipline", 1977).
/// What is before it is the connection's own backlog, by the rate at which it shrinks, and the
/// queue that its last bytes met in switches: connections of other rails and other hosts may crowd
/// the way that it was hashed to. So ways get what they carry, and nobody has to know which they
/// are.
///
/// Tiny messages, and those that ask for it, go on the first connection: in order, and without
/// looking around. What comes over any of them is its channel's alone; the bundle only chooses.
class ChannelBundle final : public Channel, private Channel::Owner {
 public:
  /// Up to here a message takes the first connection unless that one waits for room: it costs less
  /// than asking the kernel for its backlog.
  static constexpr size_t kTinyBytes = size_t{4} << 10;
  /// So much before a message is as good as nothing: round trips vary.
  static constexpr size_t kNothingBytes = size_t{8} << 10;

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
  double BytesBefore(const TcpChannel::Backlog& backlog) const;
  void CountRate(uint64_t now_ns, size_t bytes);
  void OnChannelBroken(Channel* channel, const std::string& reason) override;

  Channel::Owner* const owner_;
  std::vector<std::unique_ptr<TcpChannel>> channels_;
  // What the rail is given to send: makes bytes of the time that waits in switches.
  double bytes_per_ns_ = 0;
  uint64_t period_start_ns_ = 0;
  size_t period_bytes_ = 0;
};

}  // namespace harmonaize::transport
