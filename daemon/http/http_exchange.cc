#include "daemon/http/http_exchange.h"

#include <fmt/ranges.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/ipc/http_reason.h"

namespace harmonaize::daemon {
namespace {

/// The longest detail of a problem, in bytes: a few sentences. Details may quote a stranger.
constexpr size_t kMostDetailBytes = 2048;

int StatusOf(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument: return 400;
    case Code::kInvalidUsage: return 409;
    case Code::kInProgress: return 409;
    case Code::kRemoteError: return 503;
    case Code::kUnavailable: return 503;
    case Code::kSystemError: return 500;
    case Code::kInternalError: return 500;
  }
  return 500;
}

/// Returns the type and subtype of a Content-Type, in lower case and without parameters.
std::string MediaType(std::string_view value) {
  std::string type(value.substr(0, value.find(';')));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  for (char& one : type) {
    if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
  }
  return type;
}

}  // namespace

HttpResponse HttpProblem(int status, std::string_view detail) {
  const nlohmann::ordered_json problem = {{"type", "about:blank"},
                                          {"title", std::string(HttpReason(status))},
                                          {"status", status},
                                          {"detail", CleanText(detail, kMostDetailBytes)}};
  HttpResponse response;
  response.status = status;
  response.content_type = "application/problem+json";
  response.body = JsonText(problem) + "\n";
  return response;
}

HttpResponse HttpProblem(const Status& failure) {
  return HttpProblem(StatusOf(failure.code()), failure.message());
}

bool HasBody(const HttpRequest& head) {
  const auto length = head.headers.find("content-length");
  if (length != head.headers.end()) {
    return length->second.find_first_not_of('0') != std::string::npos;
  }
  return head.headers.contains("transfer-encoding");
}

std::optional<HttpResponse> RefuseMediaType(const HttpRequest& head,
                                            const std::vector<std::string>& types) {
  if (!HasBody(head)) return std::nullopt;
  const auto type = head.headers.find("content-type");
  const std::string sent = type == head.headers.end() ? "" : MediaType(type->second);
  if (std::find(types.begin(), types.end(), sent) != types.end()) return std::nullopt;
  return HttpProblem(
      415, fmt::format("the body is of type '{}'; send {} and say so in Content-Type", sent,
                       fmt::join(types, " or ")));
}

std::optional<HttpResponse> HttpHandler::RefuseEarly(const HttpRequest& head) {
  if (head.caller.scope == HttpScope::kStranger) {
    return HttpProblem(401, "a token is needed: send it as 'Authorization: Bearer hz_...'");
  }
  static constexpr std::array<std::string_view, 4> kMethods = {"GET", "PUT", "POST", "DELETE"};
  if (std::find(kMethods.begin(), kMethods.end(), head.method) == kMethods.end()) {
    HttpResponse refusal = HttpProblem(405, "this server knows GET, HEAD, PUT, POST and DELETE");
    refusal.headers.emplace_back("Allow", "GET, HEAD, PUT, POST, DELETE");
    return refusal;
  }
  return RefuseMediaType(head, {"application/json"});
}

}  // namespace harmonaize::daemon
