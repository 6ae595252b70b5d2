#include "daemon/main/http_door.h"

#include <chrono>

#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Time between two tries to listen at a port that another process has: short beside the time that
/// an operator needs to find that process.
constexpr std::chrono::seconds kTryEvery(5);

}  // namespace

Result<std::unique_ptr<HttpDoor>> HttpDoor::Open(const HttpConfig& config, HttpServer* server,
                                                 EventLoop* loop) {
  std::unique_ptr<HttpDoor> door(new HttpDoor(config, server, loop));
  if (config.listen.empty()) return door;
  const Status listening = door->Listen();
  if (listening.ok()) return door;
  if (listening.code() != Code::kUnavailable) return listening;
  Log(LogLevel::kWarning, kLogInit,
      "{}; tokens and the status page are served at the Unix sockets alone until it is free, and "
      "the daemon tries again every {} s",
      listening.message(), kTryEvery.count());
  HZ_RETURN_IF_ERROR(door->next_try_.Start(kTryEvery, [self = door.get()] { self->TryAgain(); }));
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

void HttpDoor::TryAgain() {
  const Status listening = Listen();
  if (listening.code() == Code::kUnavailable) return;
  if (!listening.ok()) Log(LogLevel::kError, kLogInit, "{}", listening.message());
  next_try_.Stop();
}

}  // namespace harmonaize::daemon
