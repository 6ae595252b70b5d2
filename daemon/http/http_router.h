#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/http/http_exchange.h"

namespace harmonaize::daemon {

/// Who may call a route.
enum class HttpAudience : uint8_t {
  kTenants,    ///< Tenants and operators.
  kOperators,  ///< Operators. To all others the route does not exist.
  kMetrics,    ///< Operators, and callers of scope kMetrics.
  kAnybody,    ///< Everybody, also without a token where the server's options open the path.
};

/// The parameters of a path, by their names in the route's pattern.
using HttpParameters = std::map<std::string, std::string>;

/// One method of one path.
struct HttpRoute {
  std::string method;   ///< "GET", "PUT", "POST" or "DELETE".
  std::string pattern;  ///< Such as "/v1/jobs/{job}/stuck".
  HttpAudience audience = HttpAudience::kOperators;
  std::function<void(std::shared_ptr<HttpExchange>, const HttpParameters&)> serve;
  /// The media types that a body may have.
  std::vector<std::string> media_types = {"application/json"};
};

/// Gives each request to its route. A caller hears of the routes alone that exist for it: 404 for
/// others, 405 with what it may do where only the method is wrong. A read-only operator gets 403
/// for what would change something. A fixed segment of a pattern goes before a parameter. Thread:
/// any.
class HttpRouter final : public HttpHandler {
 public:
  /// Errors: kInvalidArgument for a pattern or a method of wrong form, and for two routes that no
  /// request could tell apart.
  static Result<std::shared_ptr<HttpRouter>> Create(std::vector<HttpRoute> routes);

  std::optional<HttpResponse> RefuseEarly(const HttpRequest& head) override;
  void Handle(std::shared_ptr<HttpExchange> exchange) override;

 private:
  struct Segment {
    bool is_parameter = false;
    std::string text;  ///< The parameter's name, or the segment itself.
  };
  struct Entry {
    HttpRoute route;
    std::vector<Segment> segments;
  };
  /// The route of a request, or why it has none.
  struct Found {
    const Entry* entry = nullptr;
    std::optional<HttpResponse> refusal = {};
  };

  HttpRouter() = default;
  static Result<std::vector<Segment>> ParsePattern(const std::string& pattern);
  static bool Matches(const Entry& entry, const std::vector<std::string>& path);
  static bool IsMoreFixed(const Entry& one, const Entry& other);
  Status Add(HttpRoute route);
  Found Find(const HttpRequest& request) const;

  std::vector<Entry> entries_;  // those with fixed segments before those with parameters
};

}  // namespace harmonaize::daemon
