#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/status.h"

namespace harmonaize {

/// Distinguishes one message between two hosts from all others. Both ends compute the same name.
struct MessageName {
  uint64_t operation = 0;  ///< Equal on all hosts, and unique while one of them works on it.
  int host = 0;            ///< The other end.
  int path = -1;           ///< As in Step.
  uint32_t number = 0;     ///< Among the messages of this direction, path and slice.
  uint32_t slice = 0;
  uint32_t check = 0;  ///< Hash of what an end takes the operation for: messages of ends that
                       ///< disagree never match.

  friend bool operator==(const MessageName&, const MessageName&) = default;
};

/// Learns how messages ended.
class MessageListener {
 public:
  /// Tells that the send or receive with this `token` has ended, and that its memory is no longer
  /// touched. If ok, the memory of a sent message may be overwritten, and a received one is
  /// complete.
  virtual void OnMessage(uint64_t token, const Status& status) = 0;

 protected:
  ~MessageListener() = default;
};

/// Carries messages between the programs of hosts. Thread: one, the owner. Listeners are called on
/// it from within the calls that make the port progress, never from Send, Receive or Cancel. A
/// listener hears nothing of a message for which Send or Receive returned an error.
class MessagePort {
 public:
  virtual ~MessagePort() = default;

  /// Sends `data`, which has to stay unchanged until the listener is told. `left`: about how many
  /// bytes of the operation are still to be sent here, these included. Errors: kRemoteError if the
  /// link to the host is lost.
  virtual Status Send(const MessageName& name, std::span<const std::byte> data, uint64_t left,
                      MessageListener* listener, uint64_t token) = 0;
  /// Receives exactly as many bytes as `data` has, whether they come earlier or later. Nothing is
  /// written to `data` before the message is on its way. Errors: as Send's.
  virtual Status Receive(const MessageName& name, std::span<std::byte> data,
                         MessageListener* listener, uint64_t token) = 0;
  /// Ends all outstanding messages of an operation with an error; each listener is told.
  virtual void Cancel(uint64_t operation) = 0;
};

}  // namespace harmonaize
