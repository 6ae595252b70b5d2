#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/identity/tenant_identity.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// What a caller of the HTTP interface may do.
enum class HttpScope : uint8_t {
  kTenant,            ///< Read and change what is its own.
  kOperator,          ///< All.
  kOperatorReadOnly,  ///< Read all, change nothing.
  kMetrics,           ///< Read /metrics alone.
  kStranger,          ///< Over TCP and without a token: read the open paths (HttpOptions) alone.
};

/// Who calls. At a Unix socket the kernel says so; over TCP a token does.
struct HttpCaller {
  TenantIdentity tenant;
  HttpScope scope = HttpScope::kTenant;
  /// Name for the audit log: "uid 1000", or "token 3f9a" for the first digits of a token's id.
  std::string name;

  bool is_operator() const {
    return scope == HttpScope::kOperator || scope == HttpScope::kOperatorReadOnly;
  }
};

/// A request, checked for form and size. Names and values are percent-decoded UTF-8 without control
/// characters. HEAD arrives as GET; the server leaves the body of the answer out.
struct HttpRequest {
  /// "GET", "PUT", "POST" or "DELETE"; RefuseEarly is asked about any other one, too.
  std::string method;
  std::vector<std::string> path;             ///< The segments: {"v1", "jobs", "<job>"}.
  std::map<std::string, std::string> query;  ///< A name that comes twice is refused.
  /// By names in lower case. Values are clean (CleanText). Authorization and cookies are left out.
  std::map<std::string, std::string> headers;
  std::string body;
  HttpCaller caller;
};

/// What a request has changed, for the audit log; "": that is not known.
struct AuditNote {
  std::string id = {};     ///< Of what has changed.
  std::string state = {};  ///< Its state since.
};

/// An answer whose body is whole. The server adds the headers that every answer has, and leaves out
/// what no answer may have: cookies, CORS, the server's version, headers that frame the body, and
/// names or values that are not printable ASCII.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// What the audit log says of the change besides the path; nobody else reads it.
  AuditNote note = {};
};

/// Returns an answer with a problem (RFC 9457): `detail` is a sentence that names the thing and the
/// way out.
HttpResponse HttpProblem(int status, std::string_view detail);
/// Returns an answer with a failure's text, with the status that fits its code.
HttpResponse HttpProblem(const Status& failure);

/// Returns whether a request announces a body.
bool HasBody(const HttpRequest& head);
/// Returns the refusal of a body whose media type is not one of `types`; nullopt if the request has
/// no body, or one that fits.
std::optional<HttpResponse> RefuseMediaType(const HttpRequest& head,
                                            const std::vector<std::string>& types);

/// A stream of server-sent events to one caller. Thread: any.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  /// Queues text, which goes out as it is. Returns false if the stream has ended, or would have
  /// more queued than it may: then nothing was queued. An empty queue takes a text of any length.
  virtual bool Write(std::string text) = 0;
  /// Bytes that are queued and that the kernel has not taken yet.
  virtual size_t queued() const = 0;
  /// Sends what is queued, and ends the stream.
  virtual void End() = 0;
};

/// Called on the stream's HTTP thread whenever a stream can take more after a Write was refused,
/// and, with `ended`, once when it has ended, for whatever reason. No call follows that one, and
/// none comes once the server has closed.
using HttpStreamNews = std::function<void(bool ended)>;

/// Where the answer to one request goes. Exactly one of these is called, once. An exchange that is
/// dropped without an answer answers with status 500. The server sets no time for the answer, and
/// the connection waits for it. Thread: any.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void Respond(HttpResponse response) = 0;
  /// Begins an answer of type text/event-stream.
  virtual std::shared_ptr<HttpStream> RespondWithStream(HttpStreamNews news) = 0;
};

/// What serves requests. An exception is answered with status 500. Thread: the caller's HTTP
/// thread; several HTTP threads call it at the same time. Calls must not wait, and none comes once
/// the server has closed.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Looks at a request whose body has not been read, and returns the answer that refuses it, if
  /// any, such as that of a method which the path does not have. By default a body must be
  /// application/json, and strangers and other methods than those of HttpRequest are refused.
  virtual std::optional<HttpResponse> RefuseEarly(const HttpRequest& head);
  virtual void Handle(std::shared_ptr<HttpExchange> exchange) = 0;
};

}  // namespace harmonaize::daemon
