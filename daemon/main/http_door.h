#pragma once

#include <memory>

#include "daemon/config/config.h"
#include "daemon/http/http_server.h"
#include "daemon/runtime/port_wait.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Has the HTTP server listen over TCP where the configuration says so. Any user of the host can
/// take a port that nobody has, so a port that is taken does not end the daemon: the door tries
/// again until it is free. Thread: main.
class HttpDoor {
 public:
  /// Requires: `server` and `loop` outlive the door. Errors name what is wrong in the
  /// configuration.
  static Result<std::unique_ptr<HttpDoor>> Open(const HttpConfig& config, HttpServer* server,
                                                EventLoop* loop);
  HttpDoor(const HttpDoor&) = delete;
  HttpDoor& operator=(const HttpDoor&) = delete;

 private:
  HttpDoor(const HttpConfig& config, HttpServer* server, EventLoop* loop)
      : config_(config), server_(server), port_(loop) {}

  bool with_tls() const { return !config_.certificate_file.empty() || !config_.key_file.empty(); }
  Status Listen();

  const HttpConfig config_;
  HttpServer* const server_;
  PortWait port_;
};

}  // namespace harmonaize::daemon
