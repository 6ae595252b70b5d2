#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Where a source is asked.
struct Endpoint {
  bool tls = false;
  std::string host;         ///< A name, or an IP address without brackets.
  bool is_address = false;  ///< Whether `host` is an IP address.
  uint16_t port = 0;

  /// Returns the host as in a URL: an IPv6 address in brackets, the port unless it is the usual
  /// one.
  std::string HostHeader() const;
};

/// Reads "http://HOST[:PORT]" or "https://HOST[:PORT]", without a user, a path or a query. Errors:
/// kInvalidArgument, with a text that goes on after the key's name.
Result<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace harmonaize::daemon
