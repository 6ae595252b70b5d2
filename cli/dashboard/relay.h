#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// The functions and settings that a relay is given.
struct RelayOptions {
  uint16_t port = 0;  ///< 0: any that is free.
  /// Connects to the daemon's HTTP socket. Errors: kUnavailable.
  std::function<Result<FileDescriptor>()> connect = {};
  /// Called with each new link, the first one included.
  std::function<void(const std::string& link)> on_link = {};
  /// Whether each line on standard input asks for a new link. It has to be a terminal in whose
  /// foreground this program runs.
  bool read_terminal = false;
};

/// Serves the status page of a daemon at a port of the loopback address, and passes requests on to
/// the daemon's Unix socket, as this program's user. Any user of the host can connect to the port,
/// and any page in the browser can make requests to it: what they send is checked
/// (relay_request.h), has limits and deadlines, and reaches the daemon only with a session
/// (dashboard_secrets.h). Thread: one.
class Relay {
 public:
  /// Gets the page from the daemon, and listens. Errors: kUnavailable, kRemoteError if the daemon
  /// has no status page, kSystemError if the port is taken.
  static Result<std::unique_ptr<Relay>> Open(RelayOptions options);
  ~Relay();

  uint16_t port() const;
  /// Serves until SIGINT or SIGTERM, or until Stop. Errors: those of the kernel.
  Status Run();
  /// Ends Run. Thread: any.
  void Stop();

 private:
  struct Parts;

  explicit Relay(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonaize
