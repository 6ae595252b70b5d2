#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "plugins/nccl-net/message_slots.h"
#include "src/base/status.h"
#include "src/client/pipes/pipe_port.h"

namespace harmonaize::nccl_net {

/// What two processes tell each other about their connections.
struct Control {
  enum class Kind : uint32_t {
    kConnect = 1,  ///< A connection to `listener`, which would have `pipe`.
    kAccepted,     ///< It is there.
    kRefused,      ///< Nobody listens there.
  };
  Kind kind = Kind::kConnect;
  uint32_t pipe = 0;
  uint64_t listener = 0;
};

/// The way to another process, which carries all connections that this process makes to it, or
/// accepts from it. Each connection has a pipe of its own; pipe 0 is for Control. Thread: one at a
/// time, but for port().
class Carrier {
 public:
  explicit Carrier(std::unique_ptr<PipePort> port)
      : slots_(port->session_pointer()), port_(std::move(port)) {}
  ~Carrier();

  PipePort& port() { return *port_; }
  const std::shared_ptr<Session>& session() const { return port_->session_pointer(); }

  /// Takes in what has come, and sends what waits. Returns ok, kInProgress while the other process
  /// has not come, or why the carrier is of no use any more.
  Status Advance();
  /// Sends once that is possible.
  void Send(const Control& control) { unsent_.push_back(control); }
  /// Returns the first control message that nobody has taken; none if there is none.
  bool Receive(Control* control);

  /// Returns a number for a pipe that none has had.
  uint32_t NewPipe() { return next_pipe_++; }

  /// Number of connections that use it, and of those that are being made.
  int users = 0;
  /// What was answered to requests for connections, by pipe.
  std::map<uint32_t, Control::Kind> answers;

 private:
  Status PostReceive();

  MessageSlots slots_;  // declared first: the daemon lets go of them when the port goes
  const std::unique_ptr<PipePort> port_;
  Status failure_;
  bool ready_ = false;
  uint32_t next_pipe_ = 1;
  uint64_t sent_ = 0;      // control messages
  uint64_t received_ = 0;  // likewise, and the one that is awaited
  MessageSlot receiving_;
  std::vector<MessageSlot> sending_;
  std::deque<Control> unsent_;
  std::deque<Control> arrived_;
};

}  // namespace harmonaize::nccl_net
