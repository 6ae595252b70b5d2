#pragma once

#include <cstdint>
#include <string>

#include "src/transport/link/message_board.h"
#include "src/transport/link/rail_limit.h"
#include "src/transport/link/rail_traffic.h"

namespace harmonaize::transport {

/// One rail to one peer. What comes is brought to the message board; what ends is completed there.
/// Never blocks. For the owner's thread.
class Channel {
 public:
  class Owner {
   public:
    /// The channel is of no use any more. May be called from within any call.
    virtual void OnChannelBroken(Channel* channel, const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~Channel() = default;

  /// From now on messages come.
  virtual Status Start() = 0;

  /// Begins a send that was just made.
  virtual void Send(Request* send) = 0;
  /// Asks for the bytes of an offer of this channel. The receive is large enough; the arrival goes
  /// back to the board.
  virtual void Accept(Arrival* offer, Request* receive) = 0;
  /// Tells the sender of an offer that nobody will want it. The arrival goes back to the board.
  virtual void Refuse(Arrival* offer) = 0;
  /// A stored arrival of this channel was taken, or dropped. Before it goes back to the board.
  virtual void OnConsumed(Arrival* arrival) = 0;

  /// Ends a send or a receive of this channel that is under way, with `status`, and tells the
  /// other side; at once, or as soon as the buffer can be given back.
  virtual void Abort(Request* request, const Status& status) = 0;

  /// The link is lost: ends all requests of this channel with `status`, and stops.
  virtual void Close(const Status& status) = 0;

  /// Bytes that have come so far: a sign of life. 0 where a library does not tell.
  virtual uint64_t received_bytes() const { return 0; }
  /// All that is known of what went over it, but its name. A question to the kernel.
  virtual RailTraffic Traffic() const { return {}; }

  /// From now on it keeps to these, where it can.
  virtual void Limit(const RailLimits& /*limits*/) {}

  /// Whether a library still holds buffers of a closed channel.
  virtual bool Lingers() { return false; }
};

/// A receive met a message that is larger than its buffer.
inline Status TooLarge(const Request& receive, size_t total) {
  return InvalidUsage(
      "the message of operation {}, step {}, part {} has {} bytes, and the buffer posted for it {}",
      receive.tag.operation, receive.tag.step, receive.tag.part, total, receive.size);
}

}  // namespace harmonaize::transport
