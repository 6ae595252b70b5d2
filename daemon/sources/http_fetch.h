#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/sources/endpoint.h"
#include "daemon/sources/source_session.h"
#include "src/base/status.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace harmonaize::daemon {

/// The server that a request goes to.
struct FetchServer {
  Endpoint endpoint;
  std::vector<std::string> addresses;  ///< Its IP addresses, tried in this order.
  /// For TLS: PEM certificates, by one of which the server's must be signed, for endpoint.host.
  std::string authorities = {};
};

/// One request over a connection of its own. It has no deadline: who starts it cancels it in time.
/// Redirects are not followed, and nothing of the environment, proxies among it, is looked at.
/// Thread: the one that runs the io_context.
class HttpFetch {
 public:
  /// Takes the answer. Errors: kRemoteError if there was none, or it was malformed or too long.
  using Done = std::function<void(Result<SourceAnswer>)>;

  /// Starts the request. `done` is called once, unless Cancel is called first, and never before
  /// Start has returned. Errors: kInvalidUsage for certificates that are none; kInvalidArgument.
  static Result<std::shared_ptr<HttpFetch>> Start(boost::asio::io_context& io,
                                                  const FetchServer& server,
                                                  const SourceRequest& request, Done done);
  virtual ~HttpFetch() = default;
  /// Closes the connection; `done` is not called any more.
  virtual void Cancel() noexcept = 0;
};

}  // namespace harmonaize::daemon
