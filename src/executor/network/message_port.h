#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/status.h"

namespace harmonaize {

/// What tells one message between two hosts from all others. Both ends make the same name for it.
struct MessageName {
  uint64_t operation = 0;  ///< Alike on all hosts, and no other's while one of them is at it.
  int host = 0;            ///< The other end.
  int path = -1;           ///< As in Step.
  uint32_t number = 0;     ///< Among the messages of this direction, path and slice.
  uint32_t slice = 0;
  uint32_t check = 0;  ///< Of what both ends take the operation for: else they do not meet.

  friend bool operator==(const MessageName&, const MessageName&) = default;
};

/// Learns how messages ended.
class MessageListener {
 public:
  /// The send or receive that was given `token` has ended, and its memory is no longer touched. Ok:
  /// a sent message's memory may be overwritten; a received one is there in full.
  virtual void OnMessage(uint64_t token, const Status& status) = 0;

 protected:
  ~MessageListener() = default;
};

/// Carries messages between the programs of hosts. One thread, the owner, calls everything, and
/// gets the listeners' calls from within whatever makes the port progress: never from Send, Receive
/// or Cancel.
class MessagePort {
 public:
  virtual ~MessagePort() = default;

  /// Sends `data`, which has to stay as it is until the listener hears of it. `left`: about how
  /// many bytes of the operation are still to be sent here, these among them.
  virtual void Send(const MessageName& name, std::span<const std::byte> data, uint64_t left,
                    MessageListener* listener, uint64_t token) = 0;
  /// Receives exactly as many bytes as `data` has, before or after they came. Nothing is written
  /// there before the message is on its way.
  virtual void Receive(const MessageName& name, std::span<std::byte> data,
                       MessageListener* listener, uint64_t token) = 0;
  /// Ends, with an error, what is outstanding of an operation; the listeners hear of each.
  virtual void Cancel(uint64_t operation) = 0;
};

}  // namespace harmonaize
