#include "daemon/http/request_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/http/http_target.h"
#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

/// The longest piece of a request that an answer quotes, in bytes.
constexpr size_t kMostQuotedBytes = 64;

/// Longest name of a method, in bytes: that of the longest registered one. It bounds what the audit
/// log quotes.
constexpr size_t kMostMethodBytes = 18;

/// Names in a query under which people put secrets. Queries end up in histories and logs.
constexpr std::array<std::string_view, 6> kSecretNames = {
    "token", "access_token", "auth", "authorization", "api_key", "apikey"};

std::string LowerCaseOf(std::string_view text) {
  std::string lower(text);
  for (char& one : lower) {
    if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
  }
  return lower;
}

const std::string* HeaderOf(const RequestHead& head, const char* name) {
  const auto found = head.headers.find(name);
  return found == head.headers.end() ? nullptr : &found->second;
}

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Which methods a path has is for the handler to say.
std::optional<HttpResponse> CheckMethod(const RequestHead& head) {
  if (head.method.size() <= kMostMethodBytes) return std::nullopt;
  return HttpProblem(501,
                     fmt::format("no method has a name of more than {} letters", kMostMethodBytes));
}

std::optional<HttpResponse> CheckHost(const RequestHead& head, const RequestPlace& place) {
  const std::string* const header = HeaderOf(head, "host");
  if (header == nullptr) {
    if (head.version == 10 && !place.is_tcp) return std::nullopt;
    return HttpProblem(400, "the header Host is missing");
  }
  if (!place.is_tcp) return std::nullopt;
  const std::optional<std::string> host = HostOf(*header);
  if (!host) return HttpProblem(400, "the header Host holds no host");
  if (std::find(place.names.begin(), place.names.end(), *host) != place.names.end()) {
    return std::nullopt;
  }
  return HttpProblem(
      421, fmt::format("this daemon does not go by the name '{}'; its operator can add the name to "
                       "the configuration",
                       CleanText(*host, kMostQuotedBytes)));
}

// A page of another origin must not act for the user in whose browser it is.
std::optional<HttpResponse> CheckOrigin(const RequestHead& head, const RequestPlace& place) {
  const std::string* const origin = HeaderOf(head, "origin");
  if (origin == nullptr) return std::nullopt;
  const std::string* const host = HeaderOf(head, "host");
  const std::string own =
      host == nullptr ? "" : (place.is_tls ? "https://" : "http://") + LowerCaseOf(*host);
  if (!own.empty() && LowerCaseOf(*origin) == own) return std::nullopt;
  return HttpProblem(403, "pages of another origin may not call this interface");
}

std::optional<HttpResponse> CheckQuery(const HttpRequest& request) {
  for (const auto& [name, value] : request.query) {
    const std::string lower = LowerCaseOf(name);
    if (std::find(kSecretNames.begin(), kSecretNames.end(), lower) == kSecretNames.end()) continue;
    return HttpProblem(
        400,
        fmt::format("the query has '{}': a secret must not be part of an address, which ends up "
                    "in histories and logs; revoke the token if it was one, and send the new "
                    "one as 'Authorization: Bearer ...'",
                    lower));
  }
  return std::nullopt;
}

std::optional<HttpResponse> CheckBody(const RequestHead& head, const HttpRequest& request) {
  const std::string* const expects = HeaderOf(head, "expect");
  if (expects != nullptr && LowerCaseOf(*expects) != "100-continue") {
    return HttpProblem(417, "of what may be expected this server knows '100-continue' alone");
  }
  if (HasBody(request) && (request.method == "GET" || request.method == "DELETE")) {
    return HttpProblem(400, fmt::format("a request with {} has no body", request.method));
  }
  return std::nullopt;
}

}  // namespace

std::optional<HttpResponse> CheckRequest(const RequestHead& head, const RequestPlace& place,
                                         HttpRequest* request) {
  request->headers = head.headers;
  // Secrets go no further than to the server.
  for (const char* const name : {"authorization", "proxy-authorization", "cookie"}) {
    request->headers.erase(name);
  }
  if (auto refusal = CheckMethod(head)) return refusal;
  request->method = head.method == "HEAD" ? "GET" : head.method;
  if (auto refusal = CheckHost(head, place)) return refusal;
  if (auto refusal = CheckOrigin(head, place)) return refusal;
  Result<HttpTarget> target = ParseHttpTarget(head.target);
  if (!target.ok()) return HttpProblem(400, target.status().message());
  request->path = std::move(target->path);
  request->query = std::move(target->query);
  if (auto refusal = CheckQuery(*request)) return refusal;
  return CheckBody(head, *request);
}

std::optional<std::string> BearerOf(std::string_view authorization) {
  const size_t space = authorization.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  if (LowerCaseOf(authorization.substr(0, space)) != "bearer") return std::nullopt;
  const size_t begin = authorization.find_first_not_of(' ', space);
  if (begin == std::string_view::npos) return std::nullopt;
  return std::string(authorization.substr(begin));
}

std::optional<std::string> HostOf(std::string_view header) {
  std::string_view host = header;
  std::string_view port;
  if (!header.empty() && header.front() == '[') {
    const size_t end = header.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = header.substr(1, end - 1);
    port = header.substr(end + 1);
  } else {
    host = header.substr(0, header.find(':'));
    port = header.substr(host.size());
  }
  if (host.empty() || (!port.empty() && (port.front() != ':' || !IsPort(port.substr(1))))) {
    return std::nullopt;
  }
  return LowerCaseOf(host);
}

}  // namespace harmonaize::daemon
