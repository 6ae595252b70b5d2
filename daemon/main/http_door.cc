#include "daemon/main/http_door.h"

#include "src/base/log.h"

namespace harmonaize::daemon {

Result<std::unique_ptr<HttpDoor>> HttpDoor::Open(const HttpConfig& config, HttpServer* server,
                                                 EventLoop* loop) {
  std::unique_ptr<HttpDoor> door(new HttpDoor(config, server, loop));
  if (config.listen.empty()) return door;
  HZ_RETURN_IF_ERROR(door->port_.Begin(
      [self = door.get()](bool /*again*/) { return self->Listen(); }, LogLevel::kWarning,
      "tokens and the status page are served at the Unix sockets alone"));
  return door;
}

Status HttpDoor::Listen() {
  const Result<transport::NetworkAddress> listening =
      with_tls() ? server_->ListenTls(config_.listen, config_.certificate_file, config_.key_file)
                 : server_->ListenPlain(config_.listen);
  if (!listening.ok()) {
    return Status(listening.status().code(), "http.listen: " + listening.status().message());
  }
  Log(LogLevel::kInfo, kLogInit, "HTTP{} at {}", with_tls() ? "S" : "", listening->ToString());
  if (!with_tls()) {
    Log(LogLevel::kInfo, kLogInit,
        "HTTP at {} has no TLS: a user of this host who takes the port while no daemon runs can "
        "have the tokens that callers send there (docs/http.md, \"Who holds the port\")",
        listening->ToString());
  }
  return Status::Ok();
}

}  // namespace harmonaize::daemon
