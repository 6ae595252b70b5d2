#pragma once

#include <cstdint>
#include <string>

#include "src/transport/link/message_board.h"
#include "src/transport/link/rail_limit.h"
#include "src/transport/link/rail_traffic.h"

namespace harmonaize::transport {

/// One rail to one peer. It hands messages that arrive to the message board, and completes requests
/// there. Never blocks. Thread: one, the transport's owner.
class Channel {
 public:
  class Owner {
   public:
    /// Called when the channel is of no use any more, possibly from within any call.
    virtual void OnChannelBroken(Channel* channel, const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~Channel() = default;

  /// Starts to receive messages.
  virtual Status Start() = 0;

  /// Begins a send that was just made.
  virtual void Send(Request* send) = 0;
  /// Asks for the bytes of an offer of this channel. The arrival goes back to the board. Requires:
  /// the receive is large enough.
  virtual void Accept(Arrival* offer, Request* receive) = 0;
  /// Tells the sender of an offer that it will not be accepted. The arrival goes back to the board.
  virtual void Refuse(Arrival* offer) = 0;
  /// Called when a stored arrival of this channel was taken or dropped, before it goes back to the
  /// board.
  virtual void OnConsumed(Arrival* arrival) = 0;

  /// Ends a send or receive of this channel that is under way with `status`, at once or as soon as
  /// the buffer can be given back, and tells the other side.
  virtual void Abort(Request* request, const Status& status) = 0;

  /// Ends all requests of this channel with `status`, and stops, because the link is lost.
  virtual void Close(const Status& status) = 0;

  /// Returns the bytes received so far, as a sign of life; 0 where a library does not tell.
  virtual uint64_t received_bytes() const { return 0; }
  /// Returns all that is known of the rail's traffic, except its name. Asks the kernel.
  virtual RailTraffic Traffic() const { return {}; }

  /// Sets the limits that the channel keeps to from now on, if it can.
  virtual void Limit(const RailLimits& /*limits*/) {}

  /// Returns whether a library still holds buffers of a closed channel.
  virtual bool Lingers() { return false; }
};

/// Returns the status of a receive whose buffer is too small for the message that came.
inline Status TooLarge(const Request& receive, size_t total) {
  return InvalidUsage(
      "the message of operation {}, step {}, part {} has {} bytes, and the buffer posted for it {}",
      receive.tag.operation, receive.tag.step, receive.tag.part, total, receive.size);
}

}  // namespace harmonaize::transport
