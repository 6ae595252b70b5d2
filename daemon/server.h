#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/config.h"
#include "daemon/connection.h"
#include "daemon/engine.h"
#include "daemon/event_loop.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The daemon's front door: accepts tenants, greets them, and passes their requests to the engine.
/// Lives on the main thread.
class Server {
 public:
  static Result<std::unique_ptr<Server>> Create(const Config& config);
  ~Server();

  /// Serves until Stop. `on_listening` is called once tenants can connect.
  void Run(const std::function<void()>& on_listening);
  /// Ends Run. Any thread.
  void Stop();

  EventLoop& loop() { return *loop_; }

 private:
  explicit Server(const Config& config) : config_(config) {}

  void Accept();
  /// Turns one tenant away when there is no descriptor for it: left in the queue it would wake the
  /// loop for ever.
  void TurnAway();
  Status WatchGuest(const std::shared_ptr<Connection>& connection);
  void OnReadable(const std::shared_ptr<Connection>& connection);
  void Read(const std::shared_ptr<Connection>& connection);
  Status Greet(const std::shared_ptr<Connection>& connection, const ControlMessage& message);
  /// Has the engine's thread answer a request of who has no session yet; see AnswerGuarded.
  void PostAnswer(const std::shared_ptr<Connection>& connection, MessageType type,
                  std::function<void(Engine&)> answer);
  void Forward(const std::shared_ptr<Connection>& connection, uint32_t session,
               ControlMessage message);
  void Drop(const std::shared_ptr<Connection>& connection, const std::string& why);

  struct Guest {
    std::shared_ptr<Connection> connection;
    uint32_t session = 0;  // 0 until it has said hello
  };

  const Config config_;
  std::unique_ptr<EventLoop> loop_;
  FileDescriptor lock_;
  FileDescriptor listener_;
  FileDescriptor spare_;  // given up for a moment to turn a tenant away
  std::unique_ptr<Engine> engine_;
  std::map<int, Guest> guests_;  // by socket
  uint32_t next_session_ = 1;
  bool stopping_ = false;
};

}  // namespace harmonaize::daemon
