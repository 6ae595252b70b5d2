#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "daemon/http/byte_stream.h"
#include "daemon/http/event_queue.h"
#include "daemon/http/http_exchange.h"
#include "daemon/http/request_checks.h"
#include "daemon/http/request_reader.h"
#include "daemon/http/response_text.h"
#include "daemon/quota/holdings.h"

namespace harmonaize::daemon {

class HttpThread;
struct HttpToken;

/// The other side of a connection.
struct HttpPeer {
  /// At a Unix socket who calls; over TCP nobody before a token was shown.
  HttpCaller caller = {};
  Holding place = {};
  Holding memory = {};  ///< Gets what an event stream may queue added; may be empty.
  RequestPlace where = {};
  std::string address = {};  ///< Over TCP: the remote address as it is counted (AddressKey).
};

/// One connection, which is served one request after the other. Its HttpThread owns it. Thread:
/// HTTP.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  /// `number` is the thread's number for the connection.
  HttpConnection(HttpThread* thread, uint64_t number, std::shared_ptr<ByteStream> stream,
                 HttpPeer peer);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void Start();
  /// Closes the socket, which may make the thread wait for a tenant, and ends the stream.
  void Close() noexcept;

  // For the exchange and the stream of the request under way.
  void OnAnswer(HttpResponse response);
  void OnStream(std::shared_ptr<EventQueue> queue);
  void OnQueueWoken();

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : uint8_t {
    kBeginning,  ///< TLS is being agreed on.
    kReading,    ///< A request arrives, or is awaited.
    kPausing,    ///< Nothing is read before `pause_until_`.
    kServing,    ///< The handler has the request.
    kSending,    ///< An answer goes out.
    kStreaming,
    kDraining,  ///< All is sent; what still arrives is dropped until the other side closes.
    kClosed,
  };

  static Time Now() { return std::chrono::steady_clock::now(); }
  // Runs a call on the connection; an exception is logged and ends the connection.
  template <typename Call>
  void Guard(Call&& call) noexcept;
  template <typename Call>
  auto Bind(Call call);

  void ReadMore();
  void OnRead(ByteStream::ReadEnd end, std::string_view bytes);
  void OnPeerDone();
  void Parse();
  void OnHead();
  void Serve(std::string body);

  std::optional<HttpResponse> Authenticate(const RequestHead& head);
  std::optional<HttpResponse> AcceptToken(const std::string& secret);
  HttpResponse ExchangeToken(const std::string& secret);
  HttpResponse RefuseToken();
  void HoldToken(const HttpToken& token);
  bool Reads(const std::vector<std::string>& paths) const;
  std::optional<std::chrono::milliseconds> TakeRate();
  std::optional<HttpResponse> AskHandlerEarly();
  void RefuseForRate(std::chrono::milliseconds wait);
  void Refuse(HttpResponse refusal);

  void Answer(HttpResponse response);
  void SendText(std::string text);
  void OnSending(ByteStream::Sending sending);
  void OnSent();
  void FlushStream();
  void Next();
  void Drain();

  Time StateDeadline() const;
  Time Deadline() const { return std::min(StateDeadline(), token_until_); }
  void Arm();
  void OnTimer();
  void OnDeadline();

  HttpThread* const thread_;
  const uint64_t number_;
  const std::shared_ptr<ByteStream> stream_;
  HttpPeer peer_;
  State state_ = State::kBeginning;
  const Time started_;
  Time since_;  ///< When the state, the request or the wait for progress began.
  Time pause_until_{};
  boost::asio::steady_timer timer_;
  Time armed_for_ = Time::max();

  std::string in_;  ///< Bytes that arrived and were not taken by a request.
  bool reading_ = false;
  bool peer_done_ = false;  ///< The other side sends no more.
  bool begun_ = false;      ///< The first byte of a request has arrived.
  uint64_t served_ = 0;     ///< Requests that were answered.
  size_t drained_ = 0;
  std::unique_ptr<RequestReader> reader_;
  HttpRequest request_;
  ResponseForm form_;
  std::optional<HttpResponse> delayed_;  ///< An answer that goes out once the pause is over.

  bool sending_ = false;
  std::string unsent_;  ///< What goes out once the text under way has.
  std::shared_ptr<EventQueue> queue_;

  std::string token_;  ///< The id of the token that was shown last.
  int64_t token_expires_ = 0;
  Time token_until_ = Time::max();
};

}  // namespace harmonaize::daemon
