#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/http_exchange.h"
#include "daemon/http/request_reader.h"

namespace harmonaize::daemon {

/// Where a request came in, as far as its headers have to fit to it.
struct RequestPlace {
  bool is_tcp = false;
  bool is_tls = false;
  /// For TCP: the names that the host goes by, the literal address of this end among them, in lower
  /// case. At a Unix socket any name will do.
  std::vector<std::string> names = {};
};

/// Turns a request's head into a request without a body and without a caller. Returns the answer
/// that refuses it for its method, target, Host, Origin or Expect header, or for a token in its
/// query.
std::optional<HttpResponse> CheckRequest(const RequestHead& head, const RequestPlace& place,
                                         HttpRequest* request);

/// Returns the secret of an Authorization header of type Bearer; nullopt for any other one.
std::optional<std::string> BearerOf(std::string_view authorization);

/// Returns the host of a Host header, without the port and in lower case; nullopt if it is none.
std::optional<std::string> HostOf(std::string_view header);

}  // namespace harmonaize::daemon
