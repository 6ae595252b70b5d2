#include "cli/dashboard/relay_request.h"

#include <fmt/format.h>

#include <algorithm>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace harmonaize {
namespace {

namespace http = boost::beast::http;

using Fields = http::request<http::empty_body>;

/// The longest value of a header that the dashboard looks at, in bytes. An event's place has a
/// hundred, a session fewer.
constexpr size_t kMostValueBytes = 1024;

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char one) { return one > ' ' && one <= '~'; });
}

std::string_view ViewOf(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

/// Takes a header that may come once. Returns false if it comes twice or is odd.
bool TakeOnce(const Fields& head, http::field field, std::string* value) {
  if (head.count(field) > 1) return false;
  *value = ViewOf(head[field]);
  return value->size() <= kMostValueBytes && IsPrintable(*value);
}

/// Takes the secret of "Bearer SECRET"; leaves "" for other kinds of authorization.
bool TakeBearer(const Fields& head, std::string* secret) {
  if (head.count(http::field::authorization) > 1) return false;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view value = ViewOf(head[http::field::authorization]);
  if (!value.starts_with(kBearer)) return true;
  *secret = value.substr(kBearer.size());
  return secret->size() <= kMostValueBytes && IsPrintable(*secret);
}

bool Take(const Fields& head, RelayRequest* request) {
  request->method = ViewOf(head.method_string());
  request->target = ViewOf(head.target());
  if (!IsPrintable(request->method) || !IsPrintable(request->target)) return false;
  request->wants_stream =
      ViewOf(head[http::field::accept]).find("text/event-stream") != std::string_view::npos;
  const std::string_view length = ViewOf(head[http::field::content_length]);
  request->has_body = head.count(http::field::transfer_encoding) > 0 ||
                      length.find_first_not_of('0') != std::string_view::npos;
  if (head.count("Last-Event-ID") > 1) return false;
  request->last_event_id = ViewOf(head["Last-Event-ID"]);
  return request->last_event_id.size() <= kMostValueBytes && IsPrintable(request->last_event_id) &&
         TakeOnce(head, http::field::host, &request->host) &&
         TakeOnce(head, http::field::origin, &request->origin) &&
         TakeBearer(head, &request->bearer);
}

RelayDecision Refuse(int status, std::string detail) {
  return {.action = RelayAction::kRefuse, .status = status, .detail = std::move(detail)};
}

}  // namespace

RelayHead ReadRelayHead(std::string_view bytes) {
  http::request_parser<http::empty_body> parser;
  parser.header_limit(static_cast<uint32_t>(kMostRelayHeadBytes));
  // Without this the parser refuses bodies before the dashboard can say why it does.
  parser.skip(true);
  boost::system::error_code error;
  parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  RelayHead head;
  if (error == http::error::need_more) error = {};
  if (error || bytes.size() > kMostRelayHeadBytes) {
    head.state = RelayHead::State::kWrong;
  } else if (parser.is_header_done()) {
    head.state =
        Take(parser.get(), &head.request) ? RelayHead::State::kWhole : RelayHead::State::kWrong;
  }
  return head;
}

RelayDecision DecideRelay(const RelayRequest& request, uint16_t port) {
  const std::string address = fmt::format("127.0.0.1:{}", port);
  const std::string local = fmt::format("localhost:{}", port);
  if (request.host != address && request.host != local) {
    return Refuse(421, "the dashboard goes by 127.0.0.1 and localhost alone");
  }
  if (!request.origin.empty() && request.origin != "http://" + request.host) {
    return Refuse(403, "pages of another origin may not call the dashboard");
  }
  if (request.has_body) return Refuse(413, "the dashboard takes no request with a body");
  if (request.method == "POST" && request.target == "/v1/token/exchange") {
    return {.action = RelayAction::kExchange};
  }
  if (request.method != "GET") {
    return Refuse(405, "a dashboard only reads; the daemon's sockets and tokens let you do more");
  }
  if (request.target == "/") return {.action = RelayAction::kShowPage};
  if (!request.target.starts_with("/v1/")) {
    return Refuse(404, "the dashboard passes on what is below /v1/ alone");
  }
  return {.action = RelayAction::kForward};
}

std::string ForwardedRequest(const RelayRequest& request) {
  std::string text =
      fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", request.target);
  if (request.wants_stream) text += "Accept: text/event-stream\r\n";
  if (!request.last_event_id.empty()) {
    text += fmt::format("Last-Event-ID: {}\r\n", request.last_event_id);
  }
  return text + "\r\n";
}

}  // namespace harmonaize
