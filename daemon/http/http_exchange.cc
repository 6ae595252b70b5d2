#include "daemon/http/http_exchange.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

/// The longest detail of a problem, in bytes: a few sentences. Details may quote a stranger.
constexpr size_t kMostDetailBytes = 2048;

struct Reason {
  int status;
  std::string_view words;
};

/// The statuses that the daemon answers with, by RFC 9110 and RFC 6585.
constexpr std::array kReasons = {
    Reason{100, "Continue"},
    Reason{200, "OK"},
    Reason{201, "Created"},
    Reason{202, "Accepted"},
    Reason{204, "No Content"},
    Reason{304, "Not Modified"},
    Reason{400, "Bad Request"},
    Reason{401, "Unauthorized"},
    Reason{403, "Forbidden"},
    Reason{404, "Not Found"},
    Reason{405, "Method Not Allowed"},
    Reason{408, "Request Timeout"},
    Reason{409, "Conflict"},
    Reason{410, "Gone"},
    Reason{412, "Precondition Failed"},
    Reason{413, "Content Too Large"},
    Reason{415, "Unsupported Media Type"},
    Reason{417, "Expectation Failed"},
    Reason{421, "Misdirected Request"},
    Reason{422, "Unprocessable Content"},
    Reason{428, "Precondition Required"},
    Reason{429, "Too Many Requests"},
    Reason{431, "Request Header Fields Too Large"},
    Reason{500, "Internal Server Error"},
    Reason{501, "Not Implemented"},
    Reason{503, "Service Unavailable"},
    Reason{505, "HTTP Version Not Supported"},
};

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

std::string_view HttpReason(int status) {
  const auto* const found =
      std::find_if(kReasons.begin(), kReasons.end(),
                   [status](const Reason& reason) { return reason.status == status; });
  return found == kReasons.end() ? "Status" : found->words;
}

HttpResponse HttpProblem(int status, std::string_view detail) {
  const nlohmann::ordered_json problem = {{"type", "about:blank"},
                                          {"title", std::string(HttpReason(status))},
                                          {"status", status},
                                          {"detail", CleanText(detail, kMostDetailBytes)}};
  HttpResponse response;
  response.status = status;
  response.content_type = "application/problem+json";
  response.body = problem.dump() + "\n";
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
