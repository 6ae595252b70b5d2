#pragma once

#include <atomic>
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
#include "daemon/main/http_door.h"
#include "daemon/ras/ras_server.h"
#include "daemon/sources/source_poller.h"
#include "src/base/status.h"
#include "src/transport/listening_sockets.h"

namespace harmonaize::daemon {

/// The daemon of one host: the server, to which tenants connect, and the engine, which carries out
/// their operations. Thread: main, except for Stop.
class Daemon {
 public:
  /// Opens the sockets, measures the host if no measurement of it is kept, and joins the cluster.
  /// Listens over TCP at sockets of `listening`, where it has them. Errors name what is in the way:
  /// another daemon, or a key of the configuration.
  static Result<std::unique_ptr<Daemon>> Create(
      const Config& config, std::shared_ptr<transport::ListeningSockets> listening);
  ~Daemon();

  /// Serves until Stop. Calls `on_listening` once tenants can connect. Does not wait for a tenant
  /// that makes a thread of the daemon wait: the process then ends here, and where the daemon is to
  /// start anew, `start_anew` sees to that; it returns an exit status if it fails.
  void Run(const std::function<void()>& on_listening, const std::function<int()>& start_anew);
  /// Ends Run. Thread: any.
  void Stop() { server_->Stop(); }
  /// Returns whether Run ended because the daemon is to start anew. Requires: Run has returned.
  bool is_to_restart() const { return is_to_restart_.load(std::memory_order_relaxed); }

  /// Has grants go by this policy from now on.
  void SetPolicy(PolicyConfig policy, const TenantsConfig& tenants);

  /// Has clients get these settings for NCCL from now on.
  void SetNcclSettings(const NcclConfig& config) { server_->SetNcclSettings(config); }

  /// The main thread's loop.
  EventLoop& loop() { return server_->loop(); }

 private:
  Daemon() = default;
  Status PollSources(const SourcesConfig& config);

  std::atomic<bool> is_to_restart_{false};

  std::unique_ptr<EventPublisher> publisher_;  ///< Outlives the bus; nullptr: there is none.
  std::unique_ptr<EventBus> events_;           ///< Outlives the engine, which tells it of events.
  std::unique_ptr<Api> api_;
  FileDescriptor state_lock_;  ///< Keeps other daemons from the state directory.
  // The HTTP server calls the API, which calls bus and engine: it is closed before they go.
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpDoor> http_door_;
  std::unique_ptr<RasServer> ras_;  ///< nullptr: NCCL's RAS clients are not answered.
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<EngineGate> gate_;
  std::unique_ptr<SourcePoller> sources_;  ///< nullptr: no cloud is asked.
};

}  // namespace harmonaize::daemon
