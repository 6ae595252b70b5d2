#pragma once

#include <memory>
#include <vector>

#include "daemon/api/api_services.h"
#include "daemon/config/config.h"
#include "daemon/http/http_exchange.h"
#include "daemon/http/http_router.h"
#include "daemon/page/status_page.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The HTTP interface (docs/http.md): gives each request to its route.
class Api {
 public:
  /// Requires: `bus` outlives the HTTP server, and the engine ends before this object does.
  static Result<std::unique_ptr<Api>> Create(const Config& config, std::shared_ptr<EngineGate> gate,
                                             EventBus* bus, std::shared_ptr<TokenStore> tokens);
  ~Api();

  const std::shared_ptr<HttpHandler>& handler() const { return handler_; }
  /// A thread for what takes long, where other requests may wait.
  Background& work();

  /// Returns the routes for these services and this status page.
  static std::vector<HttpRoute> Routes(const Config& config, const ApiServices& services,
                                       StatusPage page);

 private:
  Api();

  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::shared_ptr<HttpHandler> handler_;
};

}  // namespace harmonaize::daemon
