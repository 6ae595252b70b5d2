// Streams of events: order, bounds, readers that do not read, and ends.

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "daemon/http/event_queue.h"
#include "tests/unit/daemon/http/http_fixture.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

class HttpStreamTest : public HttpServerTest {
 protected:
  /// Answers every request with a stream, and keeps the streams.
  void KeepStreams() {
    handler_->Set([this](std::shared_ptr<HttpExchange> exchange) {
      auto stream = exchange->RespondWithStream([this](bool ended) {
        if (ended) ++ended_;
        if (!ended) ++has_room_;
      });
      const std::lock_guard lock(mutex_);
      streams_.push_back(std::move(stream));
    });
  }
  std::vector<std::shared_ptr<HttpStream>> Streams() {
    const std::lock_guard lock(mutex_);
    return streams_;
  }
  std::unique_ptr<RawClient> OpenStream(uint32_t tenant = 1000) {
    const size_t before = Streams().size();
    auto client = Connect(tenant);
    EXPECT_TRUE(client->Send(Get("/v1/events")));
    EXPECT_NE(client->ReadUntil("\r\n\r\n").find("text/event-stream"), std::string::npos);
    EXPECT_TRUE(Eventually([&] { return Streams().size() > before; }));
    return client;
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_TRUE(server_->Close());
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<HttpStream>> streams_;  // guarded by mutex_
  std::atomic<int> ended_{0};
  std::atomic<int> has_room_{0};
};

TEST_F(HttpStreamTest, TextsArriveInTheirOrderAndTheStreamEndsInProperForm) {
  StartServer();
  KeepStreams();
  const auto client = OpenStream();
  const std::shared_ptr<HttpStream> stream = Streams().at(0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(stream->Write("data: " + std::to_string(i) + "\n\n"));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(client->ReadUntil("data: " + std::to_string(i) + "\n\n"), "") << i;
  }
  stream->End();
  EXPECT_EQ(client->ReadUntil("\r\n0\r\n\r\n"), "\r\n0\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return ended_ == 1; }));
  EXPECT_FALSE(stream->Write("late"));
  EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(HttpStreamTest, ClientsOfTheOldVersionGetTheTextAsItIs) {
  StartServer();
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    const auto stream = exchange->RespondWithStream(nullptr);
    EXPECT_TRUE(stream->Write("data: a\n\n"));
    stream->End();
  });
  const auto client = Connect();
  ASSERT_TRUE(client->Send("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_NE(client->ReadUntil("\r\n\r\n"), "");
  EXPECT_EQ(client->ReadToEnd(), "data: a\n\n");
}

TEST_F(HttpStreamTest, HeadOpensNoStream) {
  StartServer();
  KeepStreams();
  const auto client = Connect();
  ASSERT_TRUE(client->Send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_NE(client->ReadUntil("\r\n\r\n").find("text/event-stream"), std::string::npos);
  EXPECT_TRUE(Eventually([&] { return ended_ == 1; }));
}

TEST_F(HttpStreamTest, AReaderThatDoesNotReadFillsItsQueueAndNoMore) {
  HttpOptions options = PatientOptions();
  options.limits.stream_bytes = 100'000;
  StartServer(options);
  KeepStreams();
  const auto client = OpenStream();
  const std::shared_ptr<HttpStream> stream = Streams().at(0);
  const std::string text(1000, 'x');
  size_t written = 0;
  // The kernel takes some, too.
  ASSERT_TRUE(Eventually([&] {
    while (stream->Write(text)) ++written;
    std::this_thread::sleep_for(milliseconds(20));
    return !stream->Write(text);
  }));
  EXPECT_LE(stream->queued(), 100'000u);
  EXPECT_GT(stream->queued(), 50'000u);
  // Once the reader reads, the writer hears of room, as it did while the kernel took some.
  has_room_ = 0;
  size_t read = 0;
  while (has_room_ == 0) {
    const std::string part = client->wire().Receive();
    ASSERT_NE(part, "");
    read += part.size();
  }
  EXPECT_LE(read, written * 1000 * 2);
  EXPECT_TRUE(stream->Write(text));
}

TEST_F(HttpStreamTest, AReaderThatTakesNothingForLongIsSentAway) {
  HttpOptions options = PatientOptions();
  options.limits.progress_within = milliseconds(100);
  StartServer(options);
  KeepStreams();
  const auto client = OpenStream();
  const std::shared_ptr<HttpStream> stream = Streams().at(0);
  EXPECT_TRUE(Eventually([&] {
    stream->Write(std::string(10'000, 'x'));
    return ended_ == 1;
  }));
  EXPECT_EQ(stream->queued(), 0u);
}

TEST_F(HttpStreamTest, QuietStreamsSendComments) {
  HttpOptions options = PatientOptions();
  options.limits.heartbeat = milliseconds(10);
  StartServer(options);
  KeepStreams();
  const auto client = OpenStream();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client->ReadUntil("\n\n\r\n"), "3\r\n:\n\n\r\n");
}

TEST_F(HttpStreamTest, AStreamEndsWhenItsReaderGoes) {
  StartServer();
  KeepStreams();
  std::unique_ptr<RawClient> client = OpenStream();
  client.reset();
  EXPECT_TRUE(Eventually([&] { return ended_ == 1; }));
  EXPECT_FALSE(Streams().at(0)->Write("data: a\n\n"));
}

TEST_F(HttpStreamTest, AReaderMaySendNoMoreAndReadOn) {
  StartServer();
  KeepStreams();
  const auto client = OpenStream();
  ASSERT_EQ(shutdown(client->fd(), SHUT_WR), 0);
  EXPECT_TRUE(Streams().at(0)->Write("data: a\n\n"));
  EXPECT_NE(client->ReadUntil("data: a\n\n"), "");
}

TEST_F(HttpStreamTest, WhatAReaderSendsMeanwhileTakesABoundedAmountOfMemory) {
  StartServer();
  KeepStreams();
  const auto client = OpenStream();
  const std::string filling(4096, 'x');
  size_t sent = 0;
  pollfd writable{client->fd(), POLLOUT, 0};
  while (poll(&writable, 1, 300) == 1) {
    const ssize_t some = send(client->fd(), filling.data(), filling.size(), MSG_DONTWAIT);
    if (some > 0) sent += static_cast<size_t>(some);
    ASSERT_LT(sent, size_t{8} << 20) << "the server reads on";
  }
  EXPECT_TRUE(Streams().at(0)->Write("data: a\n\n"));
  EXPECT_NE(client->ReadUntil("data: a\n\n"), "");
}

TEST_F(HttpStreamTest, AnExceptionOfTheNewsEndsTheStreamAlone) {
  StartServer();
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    const auto stream = exchange->RespondWithStream([](bool) { throw std::runtime_error("news"); });
    stream->End();
  });
  const auto client = Connect();
  ASSERT_TRUE(client->Send(Get("/")));
  client->ReadToEnd();
  handler_->Set(nullptr);
  EXPECT_EQ(Connect()->Ask(Get("/")).status, 200);
}

TEST_F(HttpStreamTest, AStreamPaysForItsQueue) {
  StartServer();
  KeepStreams();
  Accounts accounts([] {
    ResourceLimits limits;
    limits.fill({300'000, 10'000'000});
    return limits;
  }());
  const std::shared_ptr<Account> account = accounts.Of(1000, "uid 1000");
  const auto connect = [&] {
    return Connect(1000, HttpScope::kTenant, {},
                   std::move(account->Take(Resource::kMemory, 1000)).value());
  };
  {
    const auto first = connect();
    ASSERT_TRUE(first->Send(Get("/")));
    EXPECT_NE(first->ReadUntil("\r\n\r\n").find(" 200 "), std::string::npos);
    const auto second = connect();
    EXPECT_EQ(second->Ask(Get("/")).status, 429) << "two queues are more than the quota";
    EXPECT_TRUE(Eventually([&] { return ended_ == 1; }));
  }
  EXPECT_TRUE(Eventually([&] { return account->held(Resource::kMemory) == 0; }));
}

TEST_F(HttpStreamTest, StreamsEndWithTheServer) {
  StartServer();
  KeepStreams();
  const auto client = OpenStream();
  EXPECT_TRUE(server_->Close());
  EXPECT_EQ(ended_, 1);
  EXPECT_FALSE(Streams().at(0)->Write("data: a\n\n"));
  EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(HttpStreamTest, AThousandStreamsAreServedThoughSomeReadersNeverRead) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, 3000);
  limit.rlim_max = std::max(limit.rlim_max, limit.rlim_cur);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) GTEST_SKIP() << "the host allows too few descriptors";
  constexpr int kStreams = 1000;
  constexpr int kEvents = 20;
  HttpOptions options = PatientOptions();
  options.limits.stream_bytes = 20'000;
  StartServer(options);
  KeepStreams();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(Connect(1000 + i % 4));
    ASSERT_TRUE(clients.back()->Send(Get("/v1/events")));
  }
  ASSERT_TRUE(Eventually([&] { return Streams().size() == kStreams; }));
  const std::vector<std::shared_ptr<HttpStream>> streams = Streams();
  std::vector<std::thread> writers;
  for (size_t first = 0; first < 4; ++first) {
    writers.emplace_back([&, first] {
      for (int event = 0; event < kEvents; ++event) {
        for (size_t i = first; i < streams.size(); i += 4) {
          streams[i]->Write("data: " + std::string(900, 'x') + std::to_string(event) + "\n\n");
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  // Every tenth reader reads nothing.
  for (int i = 0; i < kStreams; ++i) {
    if (i % 10 == 0) continue;
    ASSERT_NE(clients[static_cast<size_t>(i)]->ReadUntil("x19\n\n"), "") << i;
  }
  for (const auto& stream : streams) EXPECT_LE(stream->queued(), 20'000u);
}

// ---------------------------------------------------------------------------------------------
// The queue alone

TEST(EventQueue, AnEmptyQueueTakesATextOfAnyLength) {
  EventQueue queue(10, nullptr, [] {});
  EXPECT_TRUE(queue.Write(std::string(100, 'x')));
  EXPECT_FALSE(queue.Write("y"));
  EXPECT_EQ(queue.Take(1).size(), 100u);
  EXPECT_EQ(queue.queued(), 100u) << "what the kernel has not taken is queued";
  EXPECT_TRUE(queue.Sent()) << "the writer waits to hear of room";
  EXPECT_FALSE(queue.Sent()) << "and has heard of it";
  EXPECT_EQ(queue.queued(), 0u);
}

TEST(EventQueue, WakesItsConnectionOnceForManyTexts) {
  int woken = 0;
  EventQueue queue(1000, nullptr, [&] { ++woken; });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(queue.Write("a"));
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(queue.Take(1000), "aaaaaaaaaa");
  EXPECT_TRUE(queue.Write("b"));
  EXPECT_EQ(woken, 2);
}

TEST(EventQueue, IsDrainedOnceAllIsSentThatCameBeforeItsEnd) {
  EventQueue queue(1000, nullptr, [] {});
  EXPECT_TRUE(queue.Write("a"));
  queue.End();
  EXPECT_FALSE(queue.Write("b"));
  EXPECT_FALSE(queue.Drained());
  EXPECT_EQ(queue.Take(1000), "a");
  EXPECT_FALSE(queue.Drained());
  queue.Sent();
  EXPECT_TRUE(queue.Drained());
  EXPECT_TRUE(queue.Finish());
  EXPECT_FALSE(queue.Finish());
}

}  // namespace
}  // namespace harmonaize::daemon
