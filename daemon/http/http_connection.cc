#include "daemon/http/http_connection.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "daemon/http/audit_request.h"
#include "daemon/http/http_counters.h"
#include "daemon/http/http_services.h"
#include "daemon/http/http_target.h"
#include "daemon/http/http_thread.h"
#include "daemon/http/pending_exchange.h"
#include "daemon/runtime/guarded.h"
#include "src/base/json_text.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Bytes that may wait behind the request under way, beside a whole head: what one read brings.
constexpr size_t kReadAheadBytes = 4096;

/// Bytes of a stream that go to the kernel at once. A slow reader's queue shrinks in such steps.
constexpr size_t kPieceBytes = size_t{16} << 10;

/// Most bytes that are read and dropped so that a sender hears why its request was refused.
constexpr size_t kMostDrainedBytes = size_t{256} << 10;

/// Digits of a token's id that the audit log shows; enough to find it in the list of tokens.
constexpr size_t kShownIdDigits = 8;

/// What keeps a stream alive: a comment of server-sent events.
constexpr std::string_view kHeartbeat = ":\n\n";

}  // namespace

HttpConnection::HttpConnection(HttpThread* thread, uint64_t number,
                               std::shared_ptr<ByteStream> stream, HttpPeer peer)
    : thread_(thread),
      number_(number),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      started_(Now()),
      since_(started_),
      timer_(thread->context()) {
  CountersOfHttp().AddConnection();
}

template <typename Call>
void HttpConnection::Guard(Call&& call) noexcept {
  const std::shared_ptr<HttpConnection> self = shared_from_this();
  bool whole = false;
  GuardedAndLogged("an HTTP connection", [&] {
    if (state_ != State::kClosed) call();
    if (state_ != State::kClosed) Arm();
    whole = true;
  });
  if (!whole) Close();
}

/// Wraps a call for whoever calls back: it does nothing once the connection has gone.
template <typename Call>
auto HttpConnection::Bind(Call call) {
  return [weak = weak_from_this(), call](auto... arguments) {
    if (const std::shared_ptr<HttpConnection> self = weak.lock()) {
      self->Guard([&] { call(*self, arguments...); });
    }
  };
}

void HttpConnection::Start() {
  Guard([this] {
    stream_->Begin(Bind([](HttpConnection& self, bool begun) {
      if (!begun) return self.Close();
      self.Next();
    }));
  });
}

void HttpConnection::Close() noexcept {
  if (state_ == State::kClosed) return;
  const std::shared_ptr<HttpConnection> self = shared_from_this();
  state_ = State::kClosed;
  GuardedAndLogged("the end of an HTTP connection", [this] { timer_.cancel(); });
  stream_->Close();
  // The place is given back only once the socket is closed.
  peer_.memory.Reset();
  peer_.place.Reset();
  if (queue_ != nullptr) thread_->EndStream(queue_);
  queue_.reset();
  CountersOfHttp().RemoveConnection();
  thread_->Forget(number_);
}

// ---------------------------------------------------------------------------------------------
// Reading

void HttpConnection::ReadMore() {
  const size_t most = thread_->services().limits.head_bytes + kReadAheadBytes;
  if (reading_ || peer_done_ || state_ == State::kClosed || in_.size() >= most) return;
  reading_ = true;
  stream_->Read(Bind([](HttpConnection& self, ByteStream::ReadEnd end, std::string_view bytes) {
    self.OnRead(end, bytes);
  }));
}

void HttpConnection::OnRead(ByteStream::ReadEnd end, std::string_view bytes) {
  reading_ = false;
  if (end == ByteStream::ReadEnd::kBroken) return Close();
  if (end == ByteStream::ReadEnd::kEof) return OnPeerDone();
  if (state_ == State::kDraining) {
    drained_ += bytes.size();
    if (drained_ > kMostDrainedBytes) return Close();
    return ReadMore();
  }
  in_ += bytes;
  if (state_ == State::kReading) Parse();
  ReadMore();
}

// The other side may have ended one direction alone, and then gets its answer.
void HttpConnection::OnPeerDone() {
  peer_done_ = true;
  const bool is_answered = state_ == State::kServing || state_ == State::kSending ||
                           state_ == State::kStreaming || delayed_.has_value();
  if (!is_answered || stream_->HasHungUp()) Close();
}

void HttpConnection::Parse() {
  while (state_ == State::kReading) {
    if (!begun_ && in_.empty()) {
      if (peer_done_) Close();
      return;
    }
    if (!begun_) since_ = Now();
    begun_ = true;
    switch (reader_->Read(&in_)) {
      case RequestReader::Progress::kMore:
        if (peer_done_) Close();
        return;
      case RequestReader::Progress::kHead: OnHead(); break;
      case RequestReader::Progress::kWhole: Serve(reader_->TakeBody()); break;
      case RequestReader::Progress::kRefused:
        form_ = {};
        Refuse(HttpProblem(reader_->status(), reader_->detail()));
        break;
    }
  }
}

void HttpConnection::OnHead() {
  const RequestHead& head = reader_->head();
  form_ = {head.method == "HEAD", head.keep_alive, head.version};
  request_ = {};
  request_.caller.scope = HttpScope::kStranger;
  if (!peer_.where.is_tcp) request_.caller = peer_.caller;
  std::optional<HttpResponse> refusal = CheckRequest(head, peer_.where, &request_);
  if (!refusal && peer_.where.is_tcp) refusal = Authenticate(head);
  // A stranger gets one request a connection.
  if (request_.caller.scope == HttpScope::kStranger) form_.keep_alive = false;
  if (const auto wait = TakeRate()) return RefuseForRate(*wait);
  if (!refusal) refusal = AskHandlerEarly();
  if (state_ != State::kReading) return;
  if (refusal) return Refuse(std::move(*refusal));
  const bool waits = head.headers.contains("expect") && HasBody(request_) && in_.empty();
  if (waits) SendText("HTTP/1.1 100 Continue\r\n\r\n");
}

std::optional<HttpResponse> HttpConnection::AskHandlerEarly() {
  std::optional<HttpResponse> refusal;
  bool is_open = false;
  Guarded(
      [&] {
        is_open = thread_->services().gate.Enter(
            [&](HttpHandler& handler) { refusal = handler.RefuseEarly(request_); });
      },
      [&](const Status& exception) {
        is_open = true;
        refusal = HttpProblem(exception);
      });
  if (!is_open) Close();
  return refusal;
}

void HttpConnection::Serve(std::string body) {
  state_ = State::kServing;
  reader_.reset();
  HttpRequest request = request_;
  request.body = std::move(body);
  auto exchange = std::make_shared<PendingExchange>(thread_->shared_from_this(), weak_from_this(),
                                                    std::move(request));
  bool is_open = true;
  Guarded(
      [&] {
        is_open =
            thread_->services().gate.Enter([&](HttpHandler& handler) { handler.Handle(exchange); });
      },
      [&](const Status& exception) {
        LogException("an HTTP request", exception);
        exchange->Respond(HttpProblem(exception));
      });
  if (!is_open) Close();
}

// ---------------------------------------------------------------------------------------------
// Who calls

bool HttpConnection::Reads(const std::vector<std::string>& paths) const {
  return request_.method == "GET" &&
         std::find(paths.begin(), paths.end(), EncodeHttpPath(request_.path)) != paths.end();
}

std::optional<HttpResponse> HttpConnection::Authenticate(const RequestHead& head) {
  const auto header = head.headers.find("authorization");
  if (header == head.headers.end()) {
    if (Reads(thread_->services().open_paths)) return std::nullopt;
    return RefuseToken();
  }
  const std::optional<std::string> secret = BearerOf(header->second);
  if (!secret || thread_->services().tokens == nullptr) return RefuseToken();
  if (request_.method == "POST" &&
      EncodeHttpPath(request_.path) == thread_->services().exchange_path) {
    return ExchangeToken(*secret);
  }
  return AcceptToken(*secret);
}

std::optional<HttpResponse> HttpConnection::AcceptToken(const std::string& secret) {
  const std::optional<HttpToken> token = thread_->services().tokens->Lookup(secret);
  if (!token) return RefuseToken();
  if (!thread_->guests().ShowToken(number_, token->id)) {
    form_.keep_alive = false;
    return HttpProblem(429,
                       "there are as many connections with this token, or from this address, "
                       "as there may be; close some");
  }
  HoldToken(*token);
  request_.caller = {token->tenant, token->scope, "token " + token->id.substr(0, kShownIdDigits)};
  return std::nullopt;
}

HttpResponse HttpConnection::ExchangeToken(const std::string& secret) {
  const std::optional<NewToken> session = thread_->services().tokens->Exchange(secret);
  if (!session) return RefuseToken();
  form_.keep_alive = false;
  if (AuditLog* const audit = thread_->services().audit.get()) {
    audit->Add({UnixSeconds(),
                "token " + session->token.id.substr(0, kShownIdDigits),
                "POST",
                thread_->services().exchange_path,
                201,
                {}});
  }
  const nlohmann::ordered_json answer = {{"token", session->secret},
                                         {"id", session->token.id},
                                         {"scope", std::string(ScopeName(session->token.scope))},
                                         {"expires", session->token.expires}};
  HttpResponse response;
  response.status = 201;
  response.body = JsonText(answer) + "\n";
  return response;
}

// The answer is the same for every reason, and comes after the same time.
HttpResponse HttpConnection::RefuseToken() {
  pause_until_ = Now() + thread_->services().limits.failure_answered_after;
  HttpResponse refusal =
      HttpProblem(401, "a token that holds is needed: send it as 'Authorization: Bearer hz_...'");
  refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
  return refusal;
}

void HttpConnection::HoldToken(const HttpToken& token) {
  token_ = token.id;
  token_expires_ = token.expires;
  const int64_t left = token.expires - thread_->services().tokens->Now();
  token_until_ = Now() + std::chrono::seconds(std::clamp<int64_t>(left, 0, kMostTokenSeconds));
}

// No address, token or number begins like the keys of probes. A constant answer costs no more than
// its refusal would, so many are given. Strangers' requests are all counted alike, because their
// tokens were looked up.
std::optional<std::chrono::milliseconds> HttpConnection::TakeRate() {
  const std::string apart = Reads(thread_->services().probe_paths) ? "probe " : "";
  if (request_.caller.scope == HttpScope::kStranger) {
    return thread_->strangers().Take(apart + peer_.address, Now());
  }
  const std::string key =
      peer_.where.is_tcp ? token_ : fmt::format("{}", request_.caller.tenant.number);
  if (Reads(thread_->services().constant_paths)) return thread_->constants().Take(key, Now());
  return thread_->callers().Take(apart + key, Now());
}

// Who asks too often is not read before it may ask again.
void HttpConnection::RefuseForRate(std::chrono::milliseconds wait) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait).count();
  HttpResponse refusal =
      HttpProblem(429, fmt::format("there are too many requests; wait for {} s", seconds));
  refusal.headers.emplace_back("Retry-After", fmt::format("{}", seconds));
  pause_until_ = {};
  Refuse(std::move(refusal));
  pause_until_ = Now() + wait;
}

// ---------------------------------------------------------------------------------------------
// Answering

void HttpConnection::Refuse(HttpResponse refusal) {
  // What is left of the body would be taken for the next request.
  if (HasBody(request_) || refusal.status == 400) form_.keep_alive = false;
  AuditRequest(thread_->services().audit.get(), request_, refusal);
  if (Now() < pause_until_) {
    delayed_ = std::move(refusal);
    state_ = State::kPausing;
    return;
  }
  Answer(std::move(refusal));
}

void HttpConnection::OnAnswer(HttpResponse response) {
  Guard([&] {
    if (state_ == State::kServing) Answer(std::move(response));
  });
}

void HttpConnection::Answer(HttpResponse response) {
  CountersOfHttp().AddAnswer(response.status);
  state_ = State::kSending;
  since_ = Now();
  SendText(FormatResponse(response, form_));
}

void HttpConnection::SendText(std::string text) {
  if (sending_) {
    unsent_ += text;
    return;
  }
  sending_ = true;
  since_ = state_ == State::kReading ? since_ : Now();
  stream_->Write(std::move(text), Bind([](HttpConnection& self, ByteStream::Sending sending) {
                   self.OnSending(sending);
                 }));
}

void HttpConnection::OnSending(ByteStream::Sending sending) {
  if (sending == ByteStream::Sending::kBroken) return Close();
  if (state_ != State::kReading) since_ = Now();
  if (sending == ByteStream::Sending::kProgress) return;
  sending_ = false;
  if (!unsent_.empty()) return SendText(std::exchange(unsent_, {}));
  OnSent();
}

void HttpConnection::OnSent() {
  if (state_ == State::kStreaming) {
    if (queue_->Sent() && queue_->news()) {
      thread_->services().gate.Enter([&](HttpHandler&) { queue_->news()(false); });
    }
    return FlushStream();
  }
  if (state_ != State::kSending) return;
  ++served_;
  if (!form_.keep_alive) return Drain();
  Next();
}

void HttpConnection::OnStream(std::shared_ptr<EventQueue> queue) {
  Guard([&] {
    if (state_ != State::kServing) return thread_->EndStream(queue);
    const auto bytes = static_cast<int64_t>(thread_->services().limits.stream_bytes);
    const Status paid = peer_.memory.amount() == 0 ? Status::Ok() : peer_.memory.Add(bytes);
    if (!paid.ok() || form_.head_only) {
      thread_->EndStream(queue);
      HttpResponse whole;
      whole.content_type = "text/event-stream";
      return Answer(paid.ok() ? std::move(whole) : HttpProblem(429, paid.message()));
    }
    CountersOfHttp().AddAnswer(200);
    form_.keep_alive = false;
    queue_ = std::move(queue);
    state_ = State::kStreaming;
    SendText(FormatStreamHead(form_));
  });
}

void HttpConnection::OnQueueWoken() {
  Guard([this] {
    if (state_ == State::kStreaming) FlushStream();
  });
}

void HttpConnection::FlushStream() {
  if (sending_) return;
  const std::string text = queue_->Take(kPieceBytes);
  if (!text.empty()) return SendText(FormatStreamPiece(text, form_));
  if (!queue_->Drained()) return;
  thread_->EndStream(queue_);
  queue_.reset();
  state_ = State::kSending;
  const std::string_view end = StreamEnd(form_);
  if (end.empty()) return Drain();
  SendText(std::string(end));
}

void HttpConnection::Next() {
  if (Now() < pause_until_) {
    state_ = State::kPausing;
    return ReadMore();
  }
  state_ = State::kReading;
  since_ = Now();
  begun_ = false;
  request_ = {};
  const HttpLimits& limits = thread_->services().limits;
  reader_ =
      std::make_unique<RequestReader>(RequestReader::Bounds{limits.head_bytes, limits.body_bytes});
  Parse();
  ReadMore();
}

// A socket that is closed while something unread has arrived may take the answer back, so the other
// side closes first.
void HttpConnection::Drain() {
  if (peer_done_) return Close();
  state_ = State::kDraining;
  since_ = Now();
  reader_.reset();
  in_.clear();
  stream_->FinishSending();
  ReadMore();
}

// ---------------------------------------------------------------------------------------------
// Time

HttpConnection::Time HttpConnection::StateDeadline() const {
  const HttpLimits& limits = thread_->services().limits;
  const bool is_stranger = peer_.where.is_tcp && token_.empty();
  switch (state_) {
    case State::kBeginning:
    case State::kReading:
      if (is_stranger) return started_ + limits.stranger_within;
      return since_ + (begun_ || served_ == 0 ? limits.request_within : limits.idle);
    case State::kPausing: return pause_until_;
    case State::kServing: return Time::max();
    case State::kSending: return since_ + limits.progress_within;
    case State::kStreaming: return since_ + (sending_ ? limits.progress_within : limits.heartbeat);
    case State::kDraining: return since_ + limits.drain;
    case State::kClosed: return Time::max();
  }
  return Time::max();
}

// A timer that is due too early is left as it is: the deadline moves on with every request.
void HttpConnection::Arm() {
  const Time deadline = Deadline();
  if (armed_for_ <= deadline) return;
  armed_for_ = deadline;
  timer_.expires_at(deadline);
  timer_.async_wait(Bind([](HttpConnection& self, const boost::system::error_code& error) {
    if (!error) self.OnTimer();
  }));
}

void HttpConnection::OnTimer() {
  armed_for_ = Time::max();
  if (Now() >= Deadline()) OnDeadline();
}

void HttpConnection::OnDeadline() {
  if (Now() >= token_until_) {
    // The time of day, by which tokens expire, may have been set back.
    const int64_t left = token_expires_ - thread_->services().tokens->Now();
    if (left <= 0) return Close();
    token_until_ = Now() + std::chrono::seconds(std::min(left, kMostTokenSeconds));
    if (Now() < StateDeadline()) return;
  }
  switch (state_) {
    case State::kReading:
      if (!begun_) return Close();
      form_ = {};
      return Answer(HttpProblem(408, "the request did not arrive in time"));
    case State::kPausing:
      if (!delayed_) return Next();
      pause_until_ = {};
      return Answer(*std::exchange(delayed_, std::nullopt));
    case State::kStreaming:
      if (sending_) return Close();
      return SendText(FormatStreamPiece(kHeartbeat, form_));
    default: return Close();
  }
}

}  // namespace harmonaize::daemon
