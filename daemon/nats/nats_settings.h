#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// One server of NATS.
struct NatsServer {
  std::string host;  ///< A name, or an IP address without brackets.
  uint16_t port = 0;
  bool loopback = false;  ///< Only this host can be reached by `host`.
  bool tls = false;       ///< Spoken with it; always, where `loopback` is false.

  /// Returns "nats://HOST:PORT" or "tls://HOST:PORT", as the configuration has it.
  std::string url() const;
};

/// Reads "nats://HOST[:PORT]" or "tls://HOST[:PORT]", without a user and a path; the usual port is
/// 4222. Errors: kInvalidArgument, with a text that goes on after the key's name.
Result<NatsServer> ParseNatsServer(std::string_view text);

/// What the daemon publishes to, checked.
struct NatsSettings {
  std::vector<NatsServer> servers;  ///< One at least; they are tried in turn.
  std::string credentials_file;     ///< "": none, and all servers are on this host.
  std::string ca_file;              ///< "": the certificates that this host trusts anyway.
  std::string prefix;
  int64_t keep_bytes = 0;
  int64_t keep_seconds = 0;
};

/// Most servers: a cluster has a handful.
inline constexpr size_t kMostNatsServers = 16;

/// Checks what the configuration says of NATS. Requires: it names servers. Errors:
/// kInvalidArgument, with the key and the way out.
Result<NatsSettings> CheckNatsConfig(const NatsConfig& config);

/// How the daemon proves to a server who it is.
struct NatsCredentials {
  /// Whether the file is a .creds file, with a token of the account's and a key. The library reads
  /// it itself.
  bool is_creds_file = false;
  std::string user;      ///< Without a .creds file.
  std::string password;  ///< Likewise.
};

/// Reads a file of credentials: a .creds file, or one line USER:PASSWORD. Errors: kInvalidArgument
/// where it holds neither, or everyone may read it; kSystemError where it cannot be read.
Result<NatsCredentials> ReadNatsCredentials(const std::string& path);

}  // namespace harmonaize::daemon
