#include "cli/dashboard/relay.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize {
namespace {

/// Time, in seconds, after which a socket of a test gives up.
constexpr int kPatienceSeconds = 20;

constexpr char kPage[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 8\r\nConnection: close\r\n\r\n"
    "the page";

void SetPatience(int fd) {
  const timeval patience{kPatienceSeconds, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

void Say(const FileDescriptor& socket, const std::string& text) {
  EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

/// Reads until `end` has come, or the other side has closed.
std::string Hear(const FileDescriptor& socket, const std::string& end = "") {
  std::string text;
  char buffer[4096];
  while (end.empty() || text.find(end) == std::string::npos) {
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
    EXPECT_TRUE(got >= 0 || errno == ECONNRESET) << "nothing came in time";
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

/// A daemon that answers one request in the same way, whatever it is, and closes.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer) : answer_(std::move(answer)) {}

  Result<FileDescriptor> Connect() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return SystemError("no sockets");
    }
    thread_ = std::jthread([end = ends[1], answer = answer_] {
      const FileDescriptor daemon(end);
      SetPatience(daemon.get());
      Hear(daemon, "\r\n\r\n");
      Say(daemon, answer);
    });
    return FileDescriptor(ends[0]);
  }

 private:
  const std::string answer_;
  std::jthread thread_;
};

/// A relay before a daemon whose part the test plays.
class RelayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Relay>> relay =
        Relay::Open({.connect = [this] { return Connect(); },
                     .on_link = [this](const std::string& link) { Note(link); }});
    ASSERT_TRUE(relay.ok()) << relay.status().message();
    relay_ = std::move(*relay);
    thread_ = std::thread([this] { EXPECT_TRUE(relay_->Run().ok()); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !link_.empty(); });
  }
  void TearDown() override {
    if (relay_ != nullptr) relay_->Stop();
    if (thread_.joinable()) thread_.join();
  }

  // The first request is the one for the page.
  Result<FileDescriptor> Connect() {
    const std::lock_guard lock(mutex_);
    if (refuses_) return Unavailable("no daemon is here");
    if (connections_++ == 0) return page_.Connect();
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return SystemError("no sockets");
    }
    SetPatience(ends[1]);
    waiting_.emplace_back(ends[1]);
    changed_.notify_all();
    return FileDescriptor(ends[0]);
  }
  void Note(const std::string& link) {
    const std::lock_guard lock(mutex_);
    link_ = link;
    changed_.notify_all();
  }

  /// The daemon's end of the next connection to it.
  FileDescriptor Daemon() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    FileDescriptor daemon = std::move(waiting_.front());
    waiting_.pop_front();
    return daemon;
  }
  FileDescriptor Browser() const {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SetPatience(socket.get());
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(relay_->port());
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
    return socket;
  }
  std::string Request(const std::string& line, const std::string& secret = "") const {
    const std::string token = secret.empty() ? "" : "Authorization: Bearer " + secret + "\r\n";
    return line + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(relay_->port()) + "\r\n" +
           token + "\r\n";
  }
  std::string Ask(const std::string& line, const std::string& secret = "") const {
    const FileDescriptor browser = Browser();
    Say(browser, Request(line, secret));
    return Hear(browser);
  }
  std::string Secret() {
    const std::lock_guard lock(mutex_);
    return link_.substr(link_.find('#') + 1);
  }
  std::string Session() {
    const std::string answer = Ask("POST /v1/token/exchange", Secret());
    EXPECT_EQ(answer.substr(0, 20), "HTTP/1.1 201 Created");
    const auto body = ReadJson(answer.substr(answer.find("\r\n\r\n")));
    return body.at("token").get<std::string>();
  }
  int connections() {
    const std::lock_guard lock(mutex_);
    return connections_;
  }

  OneAnswer page_{kPage};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FileDescriptor> waiting_;  // guarded by mutex_
  std::string link_;                    // guarded by mutex_
  int connections_ = 0;                 // guarded by mutex_
  bool refuses_ = false;                // guarded by mutex_
  std::unique_ptr<Relay> relay_;
  std::thread thread_;
};

TEST_F(RelayTest, ShowsThePageToAnybodyAndAsksTheDaemonOnceForIt) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask("GET /"), kPage);
  EXPECT_EQ(connections(), 1);
}

TEST_F(RelayTest, PassesNothingOnWithoutASession) {
  for (const std::string& secret : {std::string(), std::string("hz_guessed"), Secret()}) {
    EXPECT_EQ(Ask("GET /v1/jobs", secret).substr(0, 12), "HTTP/1.1 401");
  }
  const std::string used = Secret();
  EXPECT_FALSE(Session().empty());
  EXPECT_EQ(Ask("POST /v1/token/exchange", used).substr(0, 12), "HTTP/1.1 401");
  EXPECT_EQ(connections(), 1) << "the daemon has heard of none of these";
}

TEST_F(RelayTest, PassesRequestsOnAndAnswersBack) {
  const std::string session = Session();
  const FileDescriptor browser = Browser();
  Say(browser, Request("GET /v1/jobs", session));
  FileDescriptor daemon = Daemon();
  EXPECT_EQ(Hear(daemon, "\r\n\r\n"),
            "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
  Say(daemon, answer);
  daemon.Reset();
  EXPECT_EQ(Hear(browser), answer);
}

TEST_F(RelayTest, PassesAStreamOnPieceByPiece) {
  const std::string session = Session();
  const FileDescriptor browser = Browser();
  Say(browser, Request("GET /v1/events?follow=true", session));
  const FileDescriptor daemon = Daemon();
  EXPECT_NE(Hear(daemon, "\r\n\r\n"), "");
  for (const char* const piece : {"first\n\n", "second\n\n", "third\n\n"}) {
    Say(daemon, piece);
    EXPECT_EQ(Hear(browser, "\n\n"), piece);
  }
}

TEST_F(RelayTest, EndsTheDaemonsStreamWhenTheBrowserGoes) {
  const std::string session = Session();
  FileDescriptor browser = Browser();
  Say(browser, Request("GET /v1/events?follow=true", session));
  const FileDescriptor daemon = Daemon();
  EXPECT_NE(Hear(daemon, "\r\n\r\n"), "");
  browser.Reset();
  EXPECT_EQ(Hear(daemon), "") << "the connection to the daemon is closed";
}

TEST_F(RelayTest, SaysThatTheDaemonHasGone) {
  const std::string session = Session();
  {
    const std::lock_guard lock(mutex_);
    refuses_ = true;
  }
  const std::string answer = Ask("GET /v1/jobs", session);
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 502");
  EXPECT_NE(answer.find("no daemon is here"), std::string::npos);
}

TEST_F(RelayTest, AnswersWhatIsNoRequest) {
  const FileDescriptor browser = Browser();
  Say(browser, "HELO mail\r\n\r\n");
  EXPECT_EQ(Hear(browser).substr(0, 12), "HTTP/1.1 400");
}

TEST_F(RelayTest, GivesThePlaceOfASilentStrangerToOthers) {
  const std::string session = Session();
  FileDescriptor known = Browser();
  Say(known, Request("GET /v1/events?follow=true", session));
  const FileDescriptor daemon = Daemon();
  EXPECT_NE(Hear(daemon, "\r\n\r\n"), "");
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 80; ++i) strangers.push_back(Browser());
  EXPECT_EQ(Ask("GET /"), kPage) << "there is still a place";
  EXPECT_EQ(Hear(strangers.front()), "") << "the first of them has lost its place";
  Say(daemon, "still here\n\n");
  EXPECT_EQ(Hear(known, "\n\n"), "still here\n\n");
}

TEST(Relay, NeedsADaemonWithAStatusPage) {
  for (const char* const answer : {"HTTP/1.1 404 Not Found\r\n\r\n", "", "no HTTP"}) {
    OneAnswer daemon(answer);
    const Result<std::unique_ptr<Relay>> relay =
        Relay::Open({.connect = [&] { return daemon.Connect(); }});
    ASSERT_FALSE(relay.ok());
    EXPECT_NE(relay.status().message().find("the daemon has no status page"), std::string::npos);
  }
}

TEST(Relay, SaysThatThePortIsTaken) {
  OneAnswer one(kPage);
  OneAnswer another(kPage);
  const Result<std::unique_ptr<Relay>> first =
      Relay::Open({.connect = [&] { return one.Connect(); }});
  ASSERT_TRUE(first.ok()) << first.status().message();
  const Result<std::unique_ptr<Relay>> second =
      Relay::Open({.port = (*first)->port(), .connect = [&] { return another.Connect(); }});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().message(),
            "port " + std::to_string((*first)->port()) +
                " of 127.0.0.1 is taken, by another dashboard perhaps; choose another one with "
                "--port, or leave --port out for any that is free");
}

}  // namespace
}  // namespace harmonaize
