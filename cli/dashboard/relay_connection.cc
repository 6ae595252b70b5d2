#include "cli/dashboard/relay_connection.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/write.hpp>
#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/ipc/http_reason.h"

namespace harmonaize {
namespace {

using boost::system::error_code;
using std::chrono::milliseconds;

/// Time for a request to arrive. A browser sends it at once; strangers must not keep places.
constexpr milliseconds kRequestWithin{5'000};
/// Time without progress after which a connection ends. Streams of events have a sign of life each
/// 15 s.
constexpr milliseconds kProgressWithin{60'000};
/// Time for the other side to close once it has its answer, and the most bytes that are read and
/// dropped meanwhile: a socket that is closed over unread bytes takes the answer back.
constexpr milliseconds kDrainWithin{2'000};
constexpr size_t kMostDrainedBytes = size_t{256} << 10;

std::string AnswerText(int status, std::string_view type, const nlohmann::json& document) {
  const std::string body = JsonText(document) + "\n";
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
      status, HttpReason(status), type, body.size(), body);
}

}  // namespace

RelayConnection::RelayConnection(boost::asio::ip::tcp::socket browser, RelayServices* services,
                                 std::function<void(RelayConnection*)> on_end)
    : browser_(std::move(browser)),
      daemon_(browser_.get_executor()),
      deadline_(browser_.get_executor()),
      services_(services),
      on_end_(std::move(on_end)) {}

// An exception ends the connection, never the dashboard.
void RelayConnection::Guard(const std::function<void()>& call) noexcept {
  const std::shared_ptr<RelayConnection> self = shared_from_this();
  if (closed_) return;
  try {
    call();
  } catch (const std::exception&) {
    Close();
  }
}

void RelayConnection::Close() noexcept {
  if (closed_) return;
  closed_ = true;
  const std::shared_ptr<RelayConnection> self = shared_from_this();
  try {
    error_code ignored;
    browser_.close(ignored);
    daemon_.close(ignored);
    deadline_.cancel();
    on_end_(this);
  } catch (const std::exception&) {
    // The sockets close with this object.
  }
}

void RelayConnection::Expect(milliseconds within) {
  deadline_.expires_after(within);
  deadline_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->Close();
  });
}

void RelayConnection::Start() {
  Guard([this] {
    Expect(kRequestWithin);
    ReadHead();
  });
}

void RelayConnection::ReadHead() {
  browser_.async_read_some(boost::asio::buffer(in_),
                           [self = shared_from_this()](error_code error, size_t count) {
                             if (error) return self->Close();
                             self->Guard([&] {
                               self->head_.append(self->in_.data(), count);
                               const RelayHead head = ReadRelayHead(self->head_);
                               switch (head.state) {
                                 case RelayHead::State::kMore: return self->ReadHead();
                                 case RelayHead::State::kWrong:
                                   return self->Problem(400, "this is no HTTP request");
                                 case RelayHead::State::kWhole: return self->OnHead(head.request);
                               }
                             });
                           });
}

void RelayConnection::OnHead(const RelayRequest& request) {
  const RelayDecision decision = DecideRelay(request, services_->port);
  switch (decision.action) {
    case RelayAction::kRefuse: return Problem(decision.status, decision.detail);
    case RelayAction::kShowPage: return Answer(services_->page);
    case RelayAction::kExchange: return Exchange(request);
    case RelayAction::kForward: return Forward(request);
  }
}

void RelayConnection::Exchange(const RelayRequest& request) {
  const Result<std::optional<std::string>> session = services_->secrets.Exchange(request.bearer);
  if (!session.ok()) return Problem(502, session.status().message());
  if (!session->has_value()) {
    return Problem(401, "this link was used already, or is too old; ask for a new one");
  }
  Answer(AnswerText(201, "application/json", {{"token", **session}}));
}

void RelayConnection::Forward(const RelayRequest& request) {
  if (!services_->secrets.Holds(request.bearer)) {
    return Problem(401, "a session of this dashboard is needed; open its link");
  }
  known_ = true;
  Result<FileDescriptor> socket = services_->connect();
  if (!socket.ok()) return Problem(502, socket.status().message());
  error_code error;
  daemon_.assign(boost::asio::local::stream_protocol(), socket->get(), error);
  if (error) return Problem(502, "the daemon cannot be reached: " + error.message());
  socket->Release();
  out_ = ForwardedRequest(request);
  Expect(kProgressWithin);
  WatchBrowser();
  boost::asio::async_write(daemon_, boost::asio::buffer(out_),
                           [self = shared_from_this()](error_code failure, size_t) {
                             if (failure) return self->Close();
                             self->Guard([&] { self->PassOn(); });
                           });
}

// A browser that closes a stream ends it at the daemon, too. What it sends behind its request is
// dropped: the answer says that the connection closes.
void RelayConnection::WatchBrowser() {
  browser_.async_read_some(boost::asio::buffer(in_),
                           [self = shared_from_this()](error_code error, size_t count) {
                             self->drained_ += count;
                             if (error || self->drained_ > kMostDrainedBytes) return self->Close();
                             self->Guard([&] { self->WatchBrowser(); });
                           });
}

// The daemon's answer goes on as it is. A browser that takes nothing makes the daemon wait, which
// has limits for that.
void RelayConnection::PassOn() {
  daemon_.async_read_some(
      boost::asio::buffer(piece_), [self = shared_from_this()](error_code error, size_t count) {
        if (self->closed_) return;
        if (error) return self->Guard([&] { self->Drain(); });
        self->Guard([&] {
          self->Expect(kProgressWithin);
          boost::asio::async_write(self->browser_, boost::asio::buffer(self->piece_.data(), count),
                                   [self](error_code failure, size_t) {
                                     if (failure) return self->Close();
                                     self->Guard([&] { self->PassOn(); });
                                   });
        });
      });
}

void RelayConnection::Problem(int status, const std::string& detail) {
  Answer(AnswerText(status, "application/problem+json",
                    {{"type", "about:blank"},
                     {"title", HttpReason(status)},
                     {"status", status},
                     {"detail", detail}}));
}

// Requires: nothing has been sent to the daemon.
void RelayConnection::Answer(std::string text) {
  out_ = std::move(text);
  Expect(kProgressWithin);
  WatchBrowser();
  boost::asio::async_write(browser_, boost::asio::buffer(out_),
                           [self = shared_from_this()](error_code error, size_t) {
                             if (error) return self->Close();
                             self->Guard([&] { self->Drain(); });
                           });
}

void RelayConnection::Drain() {
  error_code ignored;
  daemon_.close(ignored);
  browser_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  Expect(kDrainWithin);
}

}  // namespace harmonaize
