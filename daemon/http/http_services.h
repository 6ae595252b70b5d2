#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/http/audit_log.h"
#include "daemon/http/http_exchange.h"
#include "daemon/http/token_store.h"
#include "daemon/quota/rate_table.h"

namespace harmonaize::daemon {

/// Bounds of what callers may take. A stranger is a caller over TCP who has shown no token yet.
struct HttpLimits {
  using Milliseconds = std::chrono::milliseconds;

  size_t head_bytes = size_t{16} << 10;     ///< Of a request's first lines.
  size_t body_bytes = size_t{64} << 10;     ///< Of a request's body.
  size_t stream_bytes = size_t{256} << 10;  ///< That an event stream may have queued.

  Milliseconds request_within{10'000};   ///< From a request's first byte to its last one.
  Milliseconds stranger_within{5'000};   ///< The same for a stranger, from the connection's start.
  Milliseconds idle{60'000};             ///< Between two requests.
  Milliseconds progress_within{30'000};  ///< Until the other side takes some more of an answer.
  Milliseconds heartbeat{15'000};        ///< Silence after which a stream sends a comment.
  Milliseconds drain{2'000};             ///< Until the other side closes, once it has its answer.
  /// From a token that does not hold to the answer, whatever is wrong with it.
  Milliseconds failure_answered_after{200};

  RateLimit caller_requests = {50, 200};      ///< Of a tenant, an operator or a token.
  RateLimit constant_requests = {500, 1000};  ///< Of a caller, for answers that are constant.
  RateLimit stranger_requests = {5, 40};      ///< Of a remote address, without a token that holds.

  size_t token_connections = 64;     ///< TCP connections that have shown the same token.
  size_t address_connections = 256;  ///< TCP connections of one address that have shown a token.
  size_t tcp_connections = 4096;     ///< TCP connections that have shown a token.
  size_t address_strangers = 32;     ///< TCP connections of one address that have not.
  size_t strangers = 256;            ///< TCP connections that have not.
  /// Time in which a stranger cannot lose its place to another one. A caller sends its token with
  /// its first bytes, so half a second is enough for a round trip around the world and for TLS.
  Milliseconds stranger_stays{500};

  size_t tenant_threads = 1024;           ///< Threads for connections at Unix sockets.
  Milliseconds thread_lingers{5'000};     ///< From a thread's last connection to its end.
  Milliseconds certificate_look{60'000};  ///< Interval at which certificates are looked at.
  Milliseconds close_within{2'000};       ///< That Close waits for threads.
};

/// The way to the handler, which ends for all threads at once. Thread: any.
class HandlerGate {
 public:
  explicit HandlerGate(std::shared_ptr<HttpHandler> handler) : handler_(std::move(handler)) {}

  /// Calls `call` with the handler, which stays meanwhile. Returns false if the gate is closed.
  template <typename Call>
  bool Enter(Call&& call) {
    const std::shared_lock lock(mutex_);
    if (handler_ == nullptr) return false;
    call(*handler_);
    return true;
  }
  /// Waits for calls that are under way, and lets no further ones in.
  void Close() {
    std::shared_ptr<HttpHandler> gone;
    const std::unique_lock lock(mutex_);
    gone = std::move(handler_);
  }

 private:
  std::shared_mutex mutex_;
  std::shared_ptr<HttpHandler> handler_;  // guarded by mutex_
};

/// What the threads of a server share.
struct HttpServices {
  explicit HttpServices(std::shared_ptr<HttpHandler> handler) : gate(std::move(handler)) {}

  HttpLimits limits;
  /// Paths that strangers may read with GET.
  std::vector<std::string> open_paths;
  /// Paths whose GET requests are counted apart.
  std::vector<std::string> probe_paths;
  /// Paths whose GET requests are not counted.
  std::vector<std::string> constant_paths;
  /// The path at which a one-time token is exchanged for a session.
  std::string exchange_path;
  std::shared_ptr<TokenStore> tokens;  ///< nullptr: no token holds.
  std::shared_ptr<AuditLog> audit;     ///< nullptr: nothing is written down.
  HandlerGate gate;
};

}  // namespace harmonaize::daemon
