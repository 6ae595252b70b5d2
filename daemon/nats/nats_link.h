#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// A message for JetStream.
struct NatsMessage {
  std::string subject;
  std::string id;       ///< Two messages of one id are kept once (Nats-Msg-Id).
  std::string content;  ///< A CloudEvent in structured JSON.
};

/// A way to the servers that messages are published to. Thread: one at a time.
class NatsLink {
 public:
  virtual ~NatsLink() = default;

  /// Connects to the next of the servers. Requires: connected() is false. Takes some seconds at
  /// most, apart from the C library's lookup of the server's name. Errors name the server.
  virtual Status Connect() = 0;
  /// Returns whether messages can be sent, as far as is known.
  virtual bool connected() const = 0;
  /// Returns the server that was connected to last, for people.
  virtual std::string server() const = 0;

  /// Sends a message and waits, some seconds at most, until a stream has it. Requires: connected().
  /// Errors: kInvalidArgument for a message that no server takes however often it is sent. After
  /// any other error it is unknown whether the stream has the message, and connected() is false.
  virtual Status Send(const NatsMessage& message) = 0;
};

}  // namespace harmonaize::daemon
