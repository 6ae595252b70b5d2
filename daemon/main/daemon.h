#pragma once

#include <functional>
#include <memory>

#include "daemon/access/engine_gate.h"
#include "daemon/access/server.h"
#include "daemon/api/api.h"
#include "daemon/config/config.h"
#include "daemon/events/event_bus.h"
#include "daemon/events/event_publisher.h"
#include "daemon/http/http_server.h"
#include "daemon/main/engine.h"
#include "daemon/sources/source_poller.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The daemon of one host: the server, to which tenants connect, and the engine, which carries out
/// their operations. Thread: main, except for Stop.
class Daemon {
 public:
  /// Opens the sockets, measures the host if no measurement of it is kept, and joins the cluster.
  /// Errors name what is in the way: another daemon, or a key of the configuration.
  static Result<std::unique_ptr<Daemon>> Create(const Config& config);
  ~Daemon();

  /// Serves until Stop. Calls `on_listening` once tenants can connect. Does not wait for a tenant
  /// that makes a thread of the daemon wait: the process then ends here.
  void Run(const std::function<void()>& on_listening);
  /// Ends Run. Thread: any.
  void Stop() { server_->Stop(); }

  /// The main thread's loop.
  EventLoop& loop() { return server_->loop(); }

 private:
  Daemon() = default;

  std::unique_ptr<EventPublisher> publisher_;  ///< Outlives the bus; nullptr: there is none.
  std::unique_ptr<EventBus> events_;           ///< Outlives the engine, which tells it of events.
  std::unique_ptr<Api> api_;
  // The HTTP server calls the API, which calls bus and engine: it is closed before they go.
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<EngineGate> gate_;
  std::unique_ptr<SourcePoller> sources_;  ///< nullptr: no cloud is asked.
};

}  // namespace harmonaize::daemon
