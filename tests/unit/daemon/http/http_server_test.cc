// Requests at Unix sockets: what is served, what is refused, and what ends a connection.

#include "daemon/http/http_server.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

#include "src/ipc/control_socket.h"
#include "tests/support/lingering_socket.h"
#include "tests/unit/daemon/http/http_fixture.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

class UnixServerTest : public HttpServerTest {};

TEST_F(UnixServerTest, AnswersRequestsOneAfterTheOther) {
  StartServer();
  const auto client = Connect(1000);
  const ReceivedResponse first = client->Ask(Get("/v1/jobs/a%20b?limit=5"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, "GET/v1/jobs/a b?limit=5||uid 1000");
  EXPECT_EQ(client->Ask(Post("/v1/x", "{}")).body, "POST/v1/x|{}|uid 1000");
}

TEST_F(UnixServerTest, EveryAnswerHasTheHeadersThatProtectAndNoneThatTell) {
  StartServer();
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    HttpResponse response;
    response.headers = {{"Set-Cookie", "a=b"},
                        {"Access-Control-Allow-Origin", "*"},
                        {"Server", "harmonaized"},
                        {"X-Split", "a\r\nX-Injected: b"},
                        {"Location", "/v1/offers/7"}};
    exchange->Respond(std::move(response));
  });
  const std::string head = Connect()->Ask(Get("/")).head;
  EXPECT_NE(head.find("Cache-Control: no-store\r\n"), std::string::npos);
  EXPECT_NE(head.find("X-Content-Type-Options: nosniff\r\n"), std::string::npos);
  EXPECT_NE(head.find("Location: /v1/offers/7\r\n"), std::string::npos);
  for (const char* const unwanted : {"Cookie", "Access-Control", "Server", "Split", "Injected"}) {
    EXPECT_EQ(head.find(unwanted), std::string::npos) << unwanted;
  }
}

TEST_F(UnixServerTest, PipelinedRequestsAreAnsweredInTheirOrder) {
  StartServer();
  const auto client = Connect();
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += Get("/" + std::to_string(i));
  std::thread sender([&] { EXPECT_TRUE(client->wire().Send(requests)); });
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(client->ReadResponse().body, "GET/" + std::to_string(i) + "||uid 1000");
  }
  sender.join();
}

TEST_F(UnixServerTest, ARequestMayArriveByteByByte) {
  StartServer();
  const auto client = Connect();
  const std::string request = Post("/v1/x", "{\"a\": 1}");
  for (const char one : request) ASSERT_TRUE(client->Send(std::string_view(&one, 1)));
  EXPECT_EQ(client->ReadResponse().body, "POST/v1/x|{\"a\": 1}|uid 1000");
}

TEST_F(UnixServerTest, ABodyMayComeInChunks) {
  StartServer();
  const auto client = Connect();
  const ReceivedResponse response = client->Ask(
      "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json; charset=utf-8\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\n{ }\r\n1;extension=1\r\n\n\r\n0\r\n\r\n");
  EXPECT_EQ(response.body, "POST/v1/x|{ }\n|uid 1000");
  EXPECT_EQ(client->Ask(Get("/next")).status, 200);
}

TEST_F(UnixServerTest, WhoExpectsToBeToldToGoOnIsTold) {
  StartServer();
  const auto client = Connect();
  ASSERT_TRUE(
      client->Send("POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                   "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client->ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client->Ask("{}").body, "POST/v1/x|{}|uid 1000");
}

TEST_F(UnixServerTest, HeadHasTheLengthAndNoBody) {
  StartServer();
  const auto client = Connect();
  ASSERT_TRUE(client->Send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n"));
  const ReceivedResponse head = client->ReadResponse(/*has_body=*/false);
  EXPECT_NE(head.head.find("Content-Length: 15\r\n"), std::string::npos) << head.head;
  EXPECT_EQ(client->Ask(Get("/b")).body, "GET/b||uid 1000");
}

TEST_F(UnixServerTest, ClientsOfTheOldVersionAreServedOnce) {
  StartServer();
  const auto client = Connect();
  const ReceivedResponse response = client->Ask("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(response.body, "GET/a||uid 1000");
  EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(UnixServerTest, WhatIsNoProperRequestIsRefused) {
  StartServer();
  struct Case {
    std::string request;
    int status;
  };
  const std::string host = "Host: a\r\n";
  const std::vector<Case> cases = {
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", 505},
      {"GET / HTTP/1.2\r\n" + host + "\r\n", 505},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET http://a/ HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a//b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a/%2e%2e/b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a%00b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a%0ab HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /%ff HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /%4 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /?a=1&a=2 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /?Access_Token=hz_x HTTP/1.1\r\n" + host + "\r\n", 400},
      {"OPTIONS / HTTP/1.1\r\n" + host + "\r\n", 405},
      {"BREW / HTTP/1.1\r\n" + host + "\r\n", 405},
      {std::string(200, 'B') + " / HTTP/1.1\r\n" + host + "\r\n", 501},
      {"GET / HTTP/1.1\r\n" + host + "Origin: http://evil\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\n" + host + "Origin: null\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", 415},
      {"POST / HTTP/1.1\r\n" + host + "Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc",
       415},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: -3\r\n\r\nabc", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400},
      {"POST / HTTP/1.1\r\n" + host +
           "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
           "0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\n" + host +
           "Content-Type: application/json\r\n"
           "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
       400},
      {"POST / HTTP/1.1\r\n" + host + "Expect: miracles\r\nContent-Length: 3\r\n\r\nabc", 417},
  };
  for (const Case& one : cases) {
    const auto client = Connect();
    const ReceivedResponse response = client->Ask(one.request);
    EXPECT_EQ(response.status, one.status) << one.request << response.body;
    EXPECT_NE(response.head.find("Content-Type: application/problem+json"), std::string::npos);
    EXPECT_NE(response.body.find("\"status\":" + std::to_string(one.status)), std::string::npos);
  }
  EXPECT_EQ(Connect()->Ask(Get("/")).status, 200);
}

TEST_F(UnixServerTest, NoPartOfARefusedBodyIsTakenForARequest) {
  StartServer();
  const std::string smuggled = Get("/smuggled");
  std::atomic<int> served{0};
  handler_->Set([&](std::shared_ptr<HttpExchange> exchange) {
    ++served;
    exchange->Respond({});
  });
  for (const char* const first :
       {"BREW / HTTP/1.1\r\nHost: a\r\n", "POST /a//b HTTP/1.1\r\nHost: a\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nOrigin: null\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n"}) {
    const auto client = Connect();
    ASSERT_TRUE(client->Send(std::string(first) + "Content-Length: " +
                             std::to_string(smuggled.size()) + "\r\n\r\n" + smuggled));
    const ReceivedResponse response = client->ReadResponse();
    EXPECT_GE(response.status, 400) << first;
    EXPECT_EQ(client->ReadToEnd(), "") << first;
  }
  EXPECT_EQ(served, 0);
}

TEST_F(UnixServerTest, HeadsAndBodiesHaveALength) {
  StartServer();
  const std::string host = "Host: a\r\n";
  const auto json = "Content-Type: application/json\r\n";
  EXPECT_EQ(Connect()
                ->Ask("GET / HTTP/1.1\r\n" + host + "X: " + std::string(20000, 'x') + "\r\n\r\n")
                .status,
            431);
  EXPECT_EQ(Connect()->Ask("GET / HTTP/1.1\r\n" + host + std::string(100'000, 'x')).status, 431);
  std::string headers;
  for (int i = 0; i < 101; ++i) headers += "X" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(Connect()->Ask("GET / HTTP/1.1\r\n" + host + headers + "\r\n").status, 431);
  EXPECT_EQ(
      Connect()->Ask("GET /" + std::string(5000, 'x') + " HTTP/1.1\r\n" + host + "\r\n").status,
      400);

  const std::string most(64 << 10, ' ');
  EXPECT_EQ(Connect()->Ask(Post("/", most)).status, 200);
  EXPECT_EQ(Connect()->Ask(Post("/", most + " ")).status, 413);
  // A length alone is refused before the body comes.
  EXPECT_EQ(Connect()
                ->Ask("POST / HTTP/1.1\r\n" + host + json + "Content-Length: 99999999999\r\n\r\n")
                .status,
            413);
  std::string chunks;
  for (int i = 0; i < 70; ++i) chunks += "400\r\n" + std::string(1024, ' ') + "\r\n";
  EXPECT_EQ(Connect()
                ->Ask("POST / HTTP/1.1\r\n" + host + json + "Transfer-Encoding: chunked\r\n\r\n" +
                      chunks + "0\r\n\r\n")
                .status,
            413);
  EXPECT_GE(Connect()
                ->Ask("POST / HTTP/1.1\r\n" + host + json + "Transfer-Encoding: chunked\r\n\r\n1;" +
                      std::string(40000, 'x'))
                .status,
            400);
}

TEST_F(UnixServerTest, WhoSendsTooSlowlyIsToldAndSentAway) {
  HttpOptions options = PatientOptions();
  options.limits.request_within = milliseconds(100);
  StartServer(options);
  const auto client = Connect();
  std::atomic<bool> answered{false};
  std::thread drip([&] {
    client->wire().Send("GET / HTTP/1.1\r\nX: ");
    while (!answered && client->wire().Send("x")) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  EXPECT_EQ(client->ReadResponse().status, 408);
  answered = true;
  drip.join();
}

TEST_F(UnixServerTest, SilentConnectionsEnd) {
  HttpOptions options = PatientOptions();
  options.limits.request_within = milliseconds(50);
  options.limits.idle = milliseconds(50);
  StartServer(options);
  EXPECT_EQ(Connect()->ReadToEnd(), "");
  const auto client = Connect();
  EXPECT_EQ(client->Ask(Get("/")).status, 200);
  EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(UnixServerTest, AHalfClosedPeerGetsItsAnswers) {
  StartServer();
  const auto client = Connect();
  ASSERT_TRUE(client->Send(Get("/a") + Get("/b") + "GET /incomplete"));
  ASSERT_EQ(shutdown(client->fd(), SHUT_WR), 0);
  EXPECT_EQ(client->ReadResponse().body, "GET/a||uid 1000");
  EXPECT_EQ(client->ReadResponse().body, "GET/b||uid 1000");
  EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(UnixServerTest, WhoDoesNotTakeItsAnswerIsSentAwayAndTheOthersAreServed) {
  HttpOptions options = PatientOptions();
  options.limits.progress_within = milliseconds(100);
  StartServer(options);
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    HttpResponse response;
    const bool is_large = !exchange->request().path.empty();
    response.body = std::string(is_large ? 8 << 20 : 10, 'x');
    exchange->Respond(std::move(response));
  });
  const auto slow = Connect();
  ASSERT_TRUE(slow->Send(Get("/large")));
  EXPECT_EQ(Connect()->Ask(Get("/")).body.size(), 10u);
  pollfd ended{slow->fd(), 0, 0};
  EXPECT_EQ(poll(&ended, 1, 30'000), 1) << "the connection hangs up while its answer is unread";
}

TEST_F(UnixServerTest, AnExceptionOrALostExchangeIsAnsweredWithAProblem) {
  StartServer();
  const auto client = Connect();
  handler_->Set([](std::shared_ptr<HttpExchange>) { throw std::runtime_error("broken"); });
  EXPECT_EQ(client->Ask(Get("/")).status, 500);
  handler_->Set([](std::shared_ptr<HttpExchange>) {});
  EXPECT_EQ(client->Ask(Get("/")).status, 500);
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    exchange->Respond({});
    exchange->Respond(HttpProblem(404, "a second answer"));
    EXPECT_FALSE(exchange->RespondWithStream(nullptr)->Write("a third one"));
  });
  EXPECT_EQ(client->Ask(Get("/")).status, 200);
  handler_->Set(nullptr);
  EXPECT_EQ(client->Ask(Get("/a")).body, "GET/a||uid 1000");
}

TEST_F(UnixServerTest, AnotherThreadMayAnswerLater) {
  StartServer();
  std::vector<std::thread> answering;
  std::mutex mutex;
  handler_->Set([&](std::shared_ptr<HttpExchange> exchange) {
    const std::lock_guard lock(mutex);
    answering.emplace_back([exchange = std::move(exchange)] {
      HttpResponse response;
      response.body = exchange->request().path.at(0);
      exchange->Respond(std::move(response));
    });
  });
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(Connect(1000 + i % 3));
    ASSERT_TRUE(clients.back()->Send(Get("/" + std::to_string(i))));
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(clients[i]->ReadResponse().body, std::to_string(i));
  const std::lock_guard lock(mutex);
  for (std::thread& thread : answering) thread.join();
}

TEST_F(UnixServerTest, AnAnswerAfterTheConnectionOrTheServerHasGoneIsDropped) {
  StartServer();
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpExchange>> kept;
  handler_->Set([&](std::shared_ptr<HttpExchange> exchange) {
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(exchange));
  });
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return kept.size();
  };
  {
    const auto gone = Connect();
    ASSERT_TRUE(gone->Send(Get("/")));
    ASSERT_TRUE(Eventually([&] { return count() == 1; }));
  }
  const auto client = Connect();
  ASSERT_TRUE(client->Send(Get("/")));
  ASSERT_TRUE(Eventually([&] { return count() == 2; }));
  kept[0]->Respond({});
  EXPECT_TRUE(server_->Close());
  kept[1]->Respond({});
  EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(UnixServerTest, WhoAsksTooOftenIsToldHowLongToWait) {
  HttpOptions options = PatientOptions();
  options.limits.caller_requests = {0.01, 3};
  StartServer(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Connect()->Ask(Get("/")).status, 200);
  const auto client = Connect();
  const ReceivedResponse refused = client->Ask(Get("/"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.head.find("Retry-After: "), std::string::npos);
  EXPECT_EQ(Connect(1001)->Ask(Get("/")).status, 200) << "another tenant has a rate of its own";
}

TEST_F(UnixServerTest, ProbesAreCountedApartFromWhatElseACallerAsks) {
  HttpOptions options = PatientOptions();
  options.limits.caller_requests = {0.01, 3};
  StartServer(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Connect()->Ask(Get("/")).status, 200);
  EXPECT_EQ(Connect()->Ask(Get("/")).status, 429);
  EXPECT_EQ(Connect()->Ask(Get("/readyz")).status, 200);
  EXPECT_EQ(Connect()->Ask(Get("/readyz?again=1")).status, 200);
  EXPECT_EQ(Connect()->Ask(Get("/readyz")).status, 200);
  EXPECT_EQ(Connect()->Ask(Get("/readyz")).status, 429) << "they have a bound, too";
  EXPECT_EQ(Connect()->Ask(Get("/healthz")).status, 200) << "constant answers count apart";
}

TEST_F(UnixServerTest, AConnectionThatWasRefusedForItsRateIsReadAgainLater) {
  HttpOptions options = PatientOptions();
  options.limits.caller_requests = {20, 1};
  StartServer(options);
  const auto client = Connect();
  EXPECT_EQ(client->Ask(Get("/")).status, 200);
  EXPECT_EQ(client->Ask(Get("/")).status, 429);
  EXPECT_EQ(client->Ask(Get("/")).status, 200) << "it was read only once it might ask again";
}

TEST_F(UnixServerTest, AThreadEndsAfterItsLastConnectionAndAnotherOneTakesItsPlace) {
  HttpOptions options = PatientOptions();
  options.limits.thread_lingers = milliseconds(1);
  options.limits.tenant_threads = 1;
  StartServer(options);
  for (int i = 0; i < 20; ++i) {
    const std::unique_ptr<RawClient> client = Connect();
    EXPECT_EQ(client->Ask(Get("/")).status, 200);
    if (i % 2 == 0) std::this_thread::sleep_for(milliseconds(5));
  }
  // The place of the thread is free again for another tenant.
  EXPECT_TRUE(Eventually([&] {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const FileDescriptor other(ends[1]);
    AdoptedConnection connection{FileDescriptor(ends[0]), CallerOf(1001), {}};
    return server_->Adopt(&connection).ok();
  }));
}

TEST_F(UnixServerTest, AConnectionThatFindsNoThreadIsLeftToTheCaller) {
  HttpOptions options = PatientOptions();
  options.limits.tenant_threads = 1;
  StartServer(options);
  const auto first = Connect(1000);
  Accounts accounts([] {
    ResourceLimits limits;
    limits.fill({100, 100});
    return limits;
  }());
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor other(ends[1]);
  AdoptedConnection connection{
      FileDescriptor(ends[0]), CallerOf(1001),
      std::move(accounts.Of(1001, "uid 1001")->Take(Resource::kConnections, 1)).value()};
  EXPECT_EQ(server_->Adopt(&connection).code(), Code::kInvalidUsage);
  EXPECT_TRUE(connection.socket.valid());
  EXPECT_EQ(connection.place.amount(), 1);
  EXPECT_EQ(first->Ask(Get("/")).status, 200);
}

TEST_F(UnixServerTest, PlacesAreGivenBackOnceConnectionsEnd) {
  StartServer();
  Accounts accounts([] {
    ResourceLimits limits;
    limits.fill({1000, 10000});
    return limits;
  }());
  const std::shared_ptr<Account> account = accounts.Of(1000, "uid 1000");
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 10; ++i) {
      clients.push_back(Connect(1000, HttpScope::kTenant,
                                std::move(account->Take(Resource::kConnections, 1)).value()));
      EXPECT_EQ(clients.back()->Ask(Get("/")).status, 200);
    }
    EXPECT_EQ(account->held(Resource::kConnections), 10);
  }
  EXPECT_TRUE(Eventually([&] { return account->held(Resource::kConnections) == 0; }));
}

/// Makes room for so many descriptors; returns false if the host does not allow it.
bool AllowDescriptors(rlim_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  if (limit.rlim_cur >= wanted) return true;
  limit.rlim_cur = wanted;
  limit.rlim_max = std::max(limit.rlim_max, wanted);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST_F(UnixServerTest, TwoThousandConnectionsAreServed) {
  if (!AllowDescriptors(5000)) GTEST_SKIP() << "the host allows too few descriptors";
  StartServer();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 2000; ++i) clients.push_back(Connect(1000 + i % 4));
  EXPECT_EQ(server_->threads(), 4u);
  for (int round = 0; round < 2; ++round) {
    for (const auto& client : clients) ASSERT_TRUE(client->Send(Get("/a")));
    for (const auto& client : clients) ASSERT_EQ(client->ReadResponse().status, 200);
  }
}

// ---------------------------------------------------------------------------------------------
// Descriptors that make a thread wait

class LingeringTest : public UnixServerTest {
 protected:
  /// Connects a tenant whose thread has to close a descriptor that lingers until `kept_` is
  /// cleared, as it reads a request.
  std::unique_ptr<RawClient> ConnectHostile() {
    // The thread reads nothing while its handler is held, so that its copy is the last one when it
    // does.
    std::promise<void> sent;
    handler_->Set([this, held = sent.get_future().share()](std::shared_ptr<HttpExchange> exchange) {
      ++served_;
      if (exchange->request().path.at(0) == "hold") held.wait();
      exchange->Respond({});
    });
    auto client = Connect(6666);
    EXPECT_TRUE(client->Send(Get("/hold")));
    EXPECT_TRUE(Eventually([&] { return served_ == 1; }));
    ControlSocket socket{FileDescriptor(dup(client->fd()))};
    const std::string request = Get("/with-descriptor");
    const auto* const bytes = reinterpret_cast<const std::byte*>(request.data());
    EXPECT_TRUE(
        harmonaize::testing::SendLingering(socket, {bytes, bytes + request.size()}, &kept_));
    sent.set_value();
    return client;
  }

  std::vector<FileDescriptor> kept_;
  std::atomic<int> served_{0};
};

TEST_F(LingeringTest, ATenantThatMakesItsThreadWaitDelaysNobodyElse) {
  HttpOptions options = PatientOptions();
  options.limits.close_within = milliseconds(100);
  StartServer(options);
  const auto hostile = ConnectHostile();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Connect(1000)->Ask(Get("/a")).status, 200);
  pollfd answered{hostile->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&answered, 1, 200), 0) << "the tenant's own thread waits for the tenant";
  kept_.clear();
  EXPECT_EQ(hostile->ReadResponse().status, 200) << "the answer to what it held";
  EXPECT_EQ(hostile->ReadResponse().status, 200);
}

TEST_F(LingeringTest, TheServerClosesWithoutAThreadThatItsTenantKeeps) {
  HttpOptions options = PatientOptions();
  options.limits.close_within = milliseconds(100);
  StartServer(options);
  const auto hostile = ConnectHostile();
  EXPECT_FALSE(server_->Close());
  kept_.clear();
  EXPECT_TRUE(Eventually([&] { return server_->Close(); }));
  EXPECT_EQ(served_, 1) << "a handler is not called once the server has closed";
  EXPECT_TRUE(Eventually([&] { return handler_.use_count() == 1; }));
}

}  // namespace
}  // namespace harmonaize::daemon
