#include "src/ipc/http_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/ipc/daemon_search.h"

namespace harmonaize {
namespace {

namespace http = boost::beast::http;

/// Largest answer that is read whole, in bytes: far more than any document of a daemon.
constexpr uint64_t kMostReplyBytes = 64 << 20;
/// Longest sentence of a problem that is passed on, in bytes: people read no more.
constexpr size_t kMostProblemBytes = 2048;
/// Bytes that are read at once.
constexpr size_t kReadBytes = 64 << 10;

using Clock = std::chrono::steady_clock;

int MillisecondsUntil(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

Status BrokenConnection(const char* what) {
  return RemoteError("the connection to the daemon's HTTP socket broke: {}", what);
}

/// Waits until the socket can be used. Returns whether it can, or false if the time is up.
Result<bool> Await(int fd, short events, int timeout_ms) {
  pollfd poll_fd{fd, events, 0};
  const int ready = poll(&poll_fd, 1, timeout_ms);
  if (ready < 0 && errno != EINTR) return ErrnoError(errno, "cannot wait for the daemon");
  return ready > 0;
}

Status SendAll(int fd, std::string_view bytes, Clock::time_point end) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return BrokenConnection(std::strerror(errno));
    HZ_ASSIGN_OR_RETURN(const bool ready, Await(fd, POLLOUT, MillisecondsUntil(end)));
    if (!ready && Clock::now() >= end) return BrokenConnection("it takes no request");
  }
  return Status::Ok();
}

/// Returns why a stream was refused. A daemon that is busy, or about to end, may agree a moment
/// later.
Status Refusal(const HttpReply& reply) {
  constexpr int kTooManyRequests = 429;
  constexpr int kFirstFaultOfServer = 500;
  if (reply.status == kTooManyRequests || reply.status >= kFirstFaultOfServer) {
    return Unavailable("{}", ProblemIn(reply));
  }
  return InvalidArgument("{}", ProblemIn(reply));
}

std::string TextOf(const HttpCall& call) {
  std::string text = call.method + " " + call.target + " HTTP/1.1\r\nHost: localhost\r\n";
  for (const auto& [name, value] : call.headers) text += name + ": " + value + "\r\n";
  if (!call.body.empty() || call.method == "POST" || call.method == "PUT") {
    text += "Content-Type: " + call.content_type +
            "\r\nContent-Length: " + std::to_string(call.body.size()) + "\r\n";
  }
  return text + "\r\n" + call.body;
}

/// An answer that arrives. It feeds Beast's parser, and the body gathers in the message.
class Answer {
 public:
  explicit Answer(uint64_t most_bytes) {
    parser_.body_limit(most_bytes);
    parser_.eager(true);
  }

  http::response_parser<http::string_body>& parser() { return parser_; }
  HttpReply reply() const {
    const auto& message = parser_.get();
    return {.status = static_cast<int>(message.result_int()),
            .content_type = std::string(message[http::field::content_type]),
            .body = message.body()};
  }

  /// Waits for more of the answer and takes it in. Returns whether any has come. Errors:
  /// kRemoteError if the connection breaks before the answer is whole, or it is no HTTP.
  Result<bool> ReadSome(int fd, int timeout_ms) {
    HZ_ASSIGN_OR_RETURN(const bool ready, Await(fd, POLLIN, timeout_ms));
    if (!ready) return false;
    std::array<char, kReadBytes> buffer;
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0) return BrokenConnection(std::strerror(errno));
    HZ_RETURN_IF_ERROR(got == 0 ? End() : Put({buffer.data(), static_cast<size_t>(got)}));
    return true;
  }

 private:
  // The parser wants to see again what it has not used.
  Status Put(std::string_view bytes) {
    unused_.append(bytes);
    boost::system::error_code error;
    while (!unused_.empty() && !parser_.is_done()) {
      const size_t used = parser_.put(boost::asio::buffer(unused_), error);
      unused_.erase(0, used);
      if (error == http::error::need_more) return Status::Ok();
      if (error) return RemoteError("the daemon's answer is no HTTP: {}", error.message());
      if (used == 0) break;
    }
    return Status::Ok();
  }

  // The end of the connection may be that of the answer. Beast requires that the parser has seen
  // something of such an answer.
  Status End() {
    boost::system::error_code error;
    if (parser_.got_some()) parser_.put_eof(error);
    if (error || !parser_.is_done()) return BrokenConnection("the daemon closed it");
    return Status::Ok();
  }

  http::response_parser<http::string_body> parser_;
  std::string unused_;
};

}  // namespace

struct HttpEventStream::Parser : Answer {
  using Answer::Answer;
};

Result<HttpReply> CallHttp(const FileDescriptor& socket, const HttpCall& call, int within_ms) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(within_ms);
  HZ_RETURN_IF_ERROR(SendAll(socket.get(), TextOf(call), end));
  Answer answer(kMostReplyBytes);
  if (call.method == "HEAD") answer.parser().skip(true);
  while (!answer.parser().is_done()) {
    HZ_ASSIGN_OR_RETURN(const bool any, answer.ReadSome(socket.get(), MillisecondsUntil(end)));
    if (!any && Clock::now() >= end) return BrokenConnection("no answer came in time");
  }
  return answer.reply();
}

std::string ProblemIn(const HttpReply& reply) {
  const nlohmann::json problem = ReadJson(reply.body);
  if (problem.is_object()) {
    const auto detail = problem.find("detail");
    if (detail != problem.end() && detail->is_string()) {
      return CleanText(detail->get<std::string>(), kMostProblemBytes);
    }
  }
  return "the daemon answered with status " + std::to_string(reply.status);
}

std::string EncodeForUrl(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::strchr("-._~", c) != nullptr;
    if (plain && c != '\0') {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

// ---------------------------------------------------------------------------------------------
// Server-sent events

Status ServerSentEvents::Add(std::string_view bytes) {
  buffer_.append(bytes);
  size_t begin = 0;
  for (size_t end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n', begin)) {
    std::string_view line(buffer_.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    TakeLine(line);
    begin = end + 1;
  }
  buffer_.erase(0, begin);
  if (buffer_.size() + next_.data.size() > kMostBytes) {
    return RemoteError("the daemon sent an event of more than {} bytes", kMostBytes);
  }
  return Status::Ok();
}

void ServerSentEvents::TakeLine(std::string_view line) {
  if (line.empty()) {
    if (any_field_) whole_.push_back(std::exchange(next_, {}));
    any_field_ = false;
    return;
  }
  if (line.front() == ':') return;  // a comment keeps the connection alive
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "id") next_.id = value;
  if (name == "event") next_.event = value;
  if (name == "data") {
    if (!next_.data.empty()) next_.data += '\n';
    next_.data += value;
  }
  any_field_ = any_field_ || name == "id" || name == "event" || name == "data";
}

std::optional<ServerSentEvent> ServerSentEvents::Take() {
  if (taken_ == whole_.size()) return std::nullopt;
  ServerSentEvent event = std::move(whole_[taken_++]);
  if (taken_ == whole_.size()) {
    whole_.clear();
    taken_ = 0;
  }
  return event;
}

HttpEventStream::HttpEventStream(FileDescriptor socket)
    : socket_(std::move(socket)), parser_(std::make_unique<Parser>(UINT64_MAX)) {}

HttpEventStream::~HttpEventStream() = default;

Result<std::unique_ptr<HttpEventStream>> HttpEventStream::Open(FileDescriptor socket, HttpCall call,
                                                               int within_ms) {
  std::unique_ptr<HttpEventStream> stream(new HttpEventStream(std::move(socket)));
  call.headers["Accept"] = "text/event-stream";
  HZ_RETURN_IF_ERROR(stream->Begin(call, within_ms));
  return stream;
}

Status HttpEventStream::Begin(const HttpCall& call, int within_ms) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(within_ms);
  HZ_RETURN_IF_ERROR(SendAll(socket_.get(), TextOf(call), end));
  auto& parser = parser_->parser();
  const auto refused = [&] { return parser.is_header_done() && parser.get().result_int() != 200; };
  while (!parser.is_header_done() || (refused() && !parser.is_done())) {
    HZ_ASSIGN_OR_RETURN(const bool any, parser_->ReadSome(socket_.get(), MillisecondsUntil(end)));
    if (!any && Clock::now() >= end) return BrokenConnection("no answer came in time");
  }
  if (!refused()) return Status::Ok();
  return Refusal(parser_->reply());
}

Result<std::optional<ServerSentEvent>> HttpEventStream::Next(int timeout_ms) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  while (true) {
    std::string& body = parser_->parser().get().body();
    HZ_RETURN_IF_ERROR(events_.Add(std::exchange(body, {})));
    if (std::optional<ServerSentEvent> event = events_.Take()) return event;
    if (parser_->parser().is_done()) return BrokenConnection("the daemon ended the stream");
    HZ_ASSIGN_OR_RETURN(
        const bool any,
        parser_->ReadSome(socket_.get(), timeout_ms < 0 ? -1 : MillisecondsUntil(end)));
    if (!any && timeout_ms >= 0 && Clock::now() >= end) return std::optional<ServerSentEvent>();
  }
}

}  // namespace harmonaize
