// What answers in the place of a server of NATS, and is none.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "daemon/nats/nats_connection.h"
#include "src/base/file_descriptor.h"
#include "tests/unit/daemon/nats/captured_log.h"

namespace harmonaize::daemon {
namespace {

/// Listens on loopback, and has a handler speak to each that connects. Thread: its own.
class Stranger {
 public:
  using Handler = std::function<void(int socket)>;

  explicit Stranger(Handler handler)
      : handler_(std::move(handler)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~Stranger() {
    ends_ = true;
    thread_.join();
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  std::string url(const std::string& scheme) const {
    return fmt::format("{}://127.0.0.1:{}", scheme, port_);
  }

 private:
  void Serve() {
    while (!ends_) {
      pollfd waits{listener_.get(), POLLIN, 0};
      if (poll(&waits, 1, 20) <= 0) continue;
      const FileDescriptor accepted(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!accepted.valid()) continue;
      handler_(accepted.get());
      // The other side decides when it has heard enough.
      char bytes[4096];
      for (;;) {
        pollfd reads{accepted.get(), POLLIN, 0};
        const int ready = poll(&reads, 1, 20);
        if (ends_) break;
        if (ready > 0 && recv(accepted.get(), bytes, sizeof bytes, 0) <= 0) break;
      }
    }
  }

  const Handler handler_;
  const FileDescriptor listener_;
  uint16_t port_ = 0;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

void Say(int socket, const std::string& text) {
  size_t said = 0;
  while (said < text.size()) {
    const ssize_t bytes = send(socket, text.data() + said, text.size() - said, MSG_NOSIGNAL);
    if (bytes <= 0) return;
    said += static_cast<size_t>(bytes);
  }
}

/// Reads until `text` has come.
void Await(int socket, const std::string& text) {
  std::string heard;
  char bytes[4096];
  while (heard.find(text) == std::string::npos) {
    pollfd reads{socket, POLLIN, 0};
    if (poll(&reads, 1, 10'000) <= 0) return;
    const ssize_t taken = recv(socket, bytes, sizeof bytes, 0);
    if (taken <= 0) return;
    heard.append(bytes, static_cast<size_t>(taken));
  }
}

std::string Info(const std::string& more = "") {
  return R"(INFO {"server_id":"S","version":"2.9.0","proto":1,"headers":true,"max_payload":1048576)" +
         more + "}\r\n";
}

std::unique_ptr<NatsLink> LinkTo(const std::string& url) {
  Result<NatsSettings> settings = CheckNatsConfig({.servers = {url}});
  EXPECT_TRUE(settings.ok());
  Result<std::unique_ptr<NatsLink>> link = MakeNatsLink(std::move(*settings));
  EXPECT_TRUE(link.ok());
  return std::move(*link);
}

TEST(NatsStrangers, OneThatNeverAgreesOnTlsIsGivenUp) {
  const CapturedLog log;
  const Stranger stranger([](int socket) { Say(socket, Info(R"(,"tls_required":true)")); });
  const Status status = LinkTo(stranger.url("tls"))->Connect();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("tls://127.0.0.1"), std::string::npos) << status.message();
}

TEST(NatsStrangers, OneThatSaysNothingIsGivenUp) {
  const Stranger stranger([](int) {});
  EXPECT_EQ(LinkTo(stranger.url("nats"))->Connect().code(), Code::kUnavailable);
}

/// What this thread allocates is not looked for as a leak. libnats 3.4.1 leaks some hundred bytes
/// when the answer about a stream is malformed; a daemon asks once for each connection.
struct LeaksOfTheLibrary {
#ifdef __SANITIZE_ADDRESS__
  LeaksOfTheLibrary() {
    __lsan_disable();
  }
  ~LeaksOfTheLibrary() {
    __lsan_enable();
  }
#else
  // Declared, so that the object is not taken for unused.
  LeaksOfTheLibrary() {}
#endif
};

TEST(NatsStrangers, OneThatSaysSomethingElseIsNoServer) {
  const CapturedLog log;
  const LeaksOfTheLibrary leaks;
  const std::string deep(100'000, '[');
  for (const std::string& said :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("INFO \r\n"),
        std::string("INFO {\r\n"), "INFO {\"a\":" + deep + "\r\n", std::string(1 << 20, 'x'),
        std::string(100'000, '\0'), std::string("-ERR 'go\x1b[2J away'\r\n"),
        Info(R"(,"max_payload":-1,"connect_urls":[1,2,{"a":3}])")}) {
    const Stranger stranger([&](int socket) {
      Say(socket, said);
      shutdown(socket, SHUT_WR);
    });
    const Status status = LinkTo(stranger.url("nats"))->Connect();
    EXPECT_EQ(status.code(), Code::kUnavailable) << said.substr(0, 40);
    EXPECT_EQ(status.message().find('\x1b'), std::string::npos);
  }
}

/// Behaves as a server as far as the connection, then answers each request with `answer`, in which
/// the reply subject's place is {0}.
Stranger::Handler AnsweringWith(const std::string& answer) {
  return [answer](int socket) {
    Say(socket, Info());
    Await(socket, "PING\r\n");
    Say(socket, "PONG\r\n");
    std::string heard;
    char bytes[65536];
    for (;;) {
      pollfd reads{socket, POLLIN, 0};
      if (poll(&reads, 1, 10'000) <= 0) return;
      const ssize_t taken = recv(socket, bytes, sizeof bytes, 0);
      if (taken <= 0) return;
      heard.append(bytes, static_cast<size_t>(taken));
      // The last part of the inbox is the request's; what it subscribed to has number 1.
      const size_t inbox = heard.rfind("_INBOX_harmonaize.");
      const size_t end = inbox == std::string::npos ? inbox : heard.find(' ', inbox);
      if (end == std::string::npos || heard.find("\r\n", end) == std::string::npos) continue;
      const std::string reply = heard.substr(inbox, end - inbox);
      if (reply.ends_with('*')) continue;
      heard.clear();
      Say(socket, fmt::format("MSG {} 1 {}\r\n{}\r\n", reply, answer.size(), answer));
    }
  };
}

TEST(NatsStrangers, AnswersThatAreNoneOfAStreamsKeepTheEvent) {
  const CapturedLog log;
  for (const std::string& answer :
       {std::string("{}"), std::string("nonsense"), std::string(R"({"stream":"x","seq":0})"),
        std::string(R"({"stream":7,"seq":"1"})"),
        std::string(R"({"error":{"code":503,"description":"go)") + "\x1b" + R"(away"}})",
        std::string(R"({"error":7})"), std::string(200'000, '{'), std::string()}) {
    const Stranger stranger(AnsweringWith(answer));
    const std::unique_ptr<NatsLink> link = LinkTo(stranger.url("nats"));
    // The library may end the connection at some of them.
    if (!link->Connect().ok() || !link->connected()) continue;
    const Status status =
        link->Send({.subject = "harmonaize.events.a", .id = "a.1", .content = "{}"});
    EXPECT_EQ(status.code(), Code::kUnavailable) << answer.substr(0, 40);
    EXPECT_EQ(status.message().find('\x1b'), std::string::npos);
    EXPECT_FALSE(link->connected());
  }
}

TEST(NatsStrangers, AnAnswerOfAStreamIsTaken) {
  const CapturedLog log;
  const Stranger stranger(AnsweringWith(R"({"stream":"harmonaize_events","seq":1})"));
  const std::unique_ptr<NatsLink> link = LinkTo(stranger.url("nats"));
  ASSERT_TRUE(link->Connect().ok());
  const Status status =
      link->Send({.subject = "harmonaize.events.a", .id = "a.1", .content = "{}"});
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace harmonaize::daemon
