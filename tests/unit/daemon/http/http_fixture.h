#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "daemon/http/http_server.h"
#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {

/// Longest time that a test waits for anything; only a failing test waits for it.
inline constexpr std::chrono::seconds kPatience(30);

/// Waits until `holds` returns true; returns false if it never does.
inline bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct ReceivedResponse {
  int status = 0;
  std::string head;
  std::string body;
};

/// The bytes of one side of a connection, however they travel.
class ClientWire {
 public:
  virtual ~ClientWire() = default;
  /// Returns false if the other side takes no more.
  virtual bool Send(std::string_view text) = 0;
  /// Returns some bytes; "" at the end of the connection, however it ended.
  virtual std::string Receive() = 0;
};

class SocketWire final : public ClientWire {
 public:
  explicit SocketWire(FileDescriptor socket) : socket_(std::move(socket)) {
    const timeval patience{kPatience.count(), 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  bool Send(std::string_view text) override {
    while (!text.empty()) {
      const ssize_t sent = send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  std::string Receive() override {
    char part[16384];
    const ssize_t got = recv(socket_.get(), part, sizeof part, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) ADD_FAILURE() << "nothing comes";
    return got <= 0 ? "" : std::string(part, static_cast<size_t>(got));
  }
  int fd() const { return socket_.get(); }

 private:
  FileDescriptor socket_;
};

/// A client that sees every byte.
class RawClient {
 public:
  explicit RawClient(std::unique_ptr<ClientWire> wire) : wire_(std::move(wire)) {}

  bool Send(std::string_view text) { return wire_->Send(text); }
  /// Reads until the text contains `marker`, and returns it up to the marker's end; "" if it never
  /// does.
  std::string ReadUntil(std::string_view marker) {
    size_t at = 0;
    while ((at = unread_.find(marker)) == std::string::npos) {
      const std::string part = wire_->Receive();
      if (part.empty()) return "";
      unread_ += part;
    }
    std::string text = unread_.substr(0, at + marker.size());
    unread_.erase(0, text.size());
    return text;
  }
  std::string ReadToEnd() {
    for (std::string part = wire_->Receive(); !part.empty(); part = wire_->Receive()) {
      unread_ += part;
    }
    return std::exchange(unread_, "");
  }
  /// Reads an answer with a length; `has_body` is false for the answer to HEAD. Returns status 0 if
  /// the connection ends before.
  ReceivedResponse ReadResponse(bool has_body = true) {
    ReceivedResponse response;
    response.head = ReadUntil("\r\n\r\n");
    if (response.head.rfind("HTTP/1.1 ", 0) != 0) return response;
    response.status = std::stoi(response.head.substr(9, 3));
    const size_t length = response.head.find("Content-Length: ");
    if (length == std::string::npos || !has_body) return response;
    const size_t bytes = std::stoul(response.head.substr(length + 16));
    while (unread_.size() < bytes) {
      const std::string part = wire_->Receive();
      if (part.empty()) return {};
      unread_ += part;
    }
    response.body = unread_.substr(0, bytes);
    unread_.erase(0, bytes);
    return response;
  }
  ReceivedResponse Ask(std::string_view request) {
    if (!Send(request)) return {};
    return ReadResponse();
  }
  ClientWire& wire() { return *wire_; }
  /// Requires: the wire is a plain socket.
  int fd() const { return static_cast<const SocketWire&>(*wire_).fd(); }

 private:
  std::unique_ptr<ClientWire> wire_;
  std::string unread_;
};

/// A handler that does what a test says, and by default answers with what it was asked.
class TestHandler final : public HttpHandler {
 public:
  using Serve = std::function<void(std::shared_ptr<HttpExchange>)>;

  void Handle(std::shared_ptr<HttpExchange> exchange) override {
    Serve serve;
    {
      const std::lock_guard lock(mutex_);
      serve = serve_;
    }
    if (serve) return serve(std::move(exchange));
    const HttpRequest& request = exchange->request();
    std::string text = request.method;
    for (const std::string& segment : request.path) text += "/" + segment;
    for (const auto& [name, value] : request.query) text += "?" + name + "=" + value;
    HttpResponse response;
    response.body = text + "|" + request.body + "|" + request.caller.name;
    exchange->Respond(std::move(response));
  }
  void Set(Serve serve) {
    const std::lock_guard lock(mutex_);
    serve_ = std::move(serve);
  }

 private:
  std::mutex mutex_;
  Serve serve_;  // guarded by mutex_
};

/// A server with a handler, and ways to connect to it.
class HttpServerTest : public ::testing::Test {
 protected:
  /// Limits of time that no test reaches by accident, unless it sets some.
  static HttpOptions PatientOptions() {
    HttpOptions options;
    options.limits.caller_requests = {1e6, 1e6};
    options.limits.stranger_requests = {1e6, 1e6};
    options.limits.failure_answered_after = std::chrono::milliseconds(1);
    options.limits.request_within = std::chrono::minutes(5);
    options.limits.stranger_within = std::chrono::minutes(5);
    options.limits.idle = std::chrono::minutes(5);
    options.limits.progress_within = std::chrono::minutes(5);
    options.limits.heartbeat = std::chrono::minutes(5);
    options.limits.drain = std::chrono::minutes(5);
    options.limits.thread_lingers = std::chrono::minutes(5);
    options.limits.close_within = kPatience;
    return options;
  }

  void StartServer(HttpOptions options = PatientOptions()) {
    Result<std::unique_ptr<HttpServer>> server = HttpServer::Create(std::move(options), handler_);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
  }

  static HttpCaller CallerOf(uint32_t tenant, HttpScope scope = HttpScope::kTenant) {
    const std::string name = "uid " + std::to_string(tenant);
    return {{tenant, tenant, tenant, name}, scope, name};
  }

  /// Returns a client whose other side the server has adopted.
  std::unique_ptr<RawClient> Connect(uint32_t tenant = 1000, HttpScope scope = HttpScope::kTenant,
                                     Holding place = {}, Holding memory = {}) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    AdoptedConnection connection{FileDescriptor(ends[0]), CallerOf(tenant, scope), std::move(place),
                                 std::move(memory)};
    const Status adopted = server_->Adopt(&connection);
    EXPECT_TRUE(adopted.ok()) << adopted.message();
    return std::make_unique<RawClient>(std::make_unique<SocketWire>(FileDescriptor(ends[1])));
  }

  std::shared_ptr<TestHandler> handler_ = std::make_shared<TestHandler>();
  std::unique_ptr<HttpServer> server_;
};

inline std::string Get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

inline std::string Post(std::string_view target, std::string_view body,
                        std::string_view type = "application/json") {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace harmonaize::daemon
