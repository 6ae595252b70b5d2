#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

// A client of the daemon's HTTP interface at its Unix sockets. It believes the same daemons as the
// client of the control socket does: FindDaemonHttp (daemon_search.h) connects to one.

/// A request. The target is "/v1/jobs?limit=5", with everything encoded that needs it.
struct HttpCall {
  std::string method = "GET";
  std::string target;
  std::string body = {};
  std::map<std::string, std::string> headers = {};
  std::string content_type = "application/json";  ///< Of the body.
};

struct HttpReply {
  int status = 0;
  std::string content_type = {};
  std::string body = {};
};

/// Makes a request over a connected socket and waits for the answer, for `within_ms` at most.
/// Errors: kRemoteError if the connection breaks, the time is up or the answer is no HTTP. An
/// answer that reports a failure is none.
Result<HttpReply> CallHttp(const FileDescriptor& socket, const HttpCall& call, int within_ms);

/// Returns the sentence of a problem (RFC 9457) that an answer reports; else its status.
std::string ProblemIn(const HttpReply& reply);

/// Returns a text percent-encoded for a path or a query.
std::string EncodeForUrl(std::string_view text);

/// One server-sent event.
/// Source: HTML, section 9.2, "Server-sent events".
struct ServerSentEvent {
  std::string id = {};
  std::string event = {};
  std::string data = {};
};

/// Takes a stream of server-sent events apart. Thread: one.
class ServerSentEvents {
 public:
  /// Most bytes of one event. A daemon's are a tenth of it.
  static constexpr size_t kMostBytes = 1 << 20;

  /// Adds what has come. Returns kRemoteError for an event that is too long.
  Status Add(std::string_view bytes);
  /// Removes and returns the first whole event, if there is one.
  std::optional<ServerSentEvent> Take();

 private:
  void TakeLine(std::string_view line);

  std::string buffer_;
  ServerSentEvent next_;
  bool any_field_ = false;
  std::vector<ServerSentEvent> whole_;
  size_t taken_ = 0;
};

/// A stream of events from a daemon. Thread: one.
class HttpEventStream {
 public:
  /// Asks for a stream, and waits until the daemon has agreed to it, for `within_ms` at most.
  /// Errors: kInvalidArgument with the daemon's reason where it refuses; kUnavailable with the
  /// reason where it may agree later; kRemoteError.
  static Result<std::unique_ptr<HttpEventStream>> Open(FileDescriptor socket, HttpCall call,
                                                       int within_ms);
  ~HttpEventStream();

  /// Becomes readable when there may be an event, or the stream has ended.
  int fd() const { return socket_.get(); }
  /// Returns the next event, and waits for it for `timeout_ms`; -1: for ever; 0: not at all.
  /// Returns nullopt if none has come. Errors: kRemoteError once the stream has ended.
  Result<std::optional<ServerSentEvent>> Next(int timeout_ms);

 private:
  struct Parser;

  explicit HttpEventStream(FileDescriptor socket);
  Status Begin(const HttpCall& call, int within_ms);

  FileDescriptor socket_;
  std::unique_ptr<Parser> parser_;
  ServerSentEvents events_;
};

}  // namespace harmonaize
