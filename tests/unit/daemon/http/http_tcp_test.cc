// Requests over TCP: who may call, with TLS and without, and for how long.

#include <stdlib.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/http/tls_certificate.h"
#include "src/base/json_text.h"
#include "tests/unit/daemon/http/http_fixture.h"
#include "tests/unit/daemon/http/tls_client.h"

namespace harmonaize::daemon {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using transport::NetworkAddress;

class HttpTcpTest : public HttpServerTest {
 protected:
  HttpTcpTest() {
    // OpenSSL writes without MSG_NOSIGNAL on the tests' side.
    std::signal(SIGPIPE, SIG_IGN);
    std::string folder = (fs::temp_directory_path() / "http-tcp-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~HttpTcpTest() override {
    server_.reset();
    fs::remove_all(folder_);
  }

  HttpOptions OptionsWithTokens() {
    HttpOptions options = PatientOptions();
    tokens_ = TokenStore::Open("", [this] { return now_.load(); });
    options.tokens = tokens_;
    return options;
  }
  void StartPlain(HttpOptions options) {
    StartServer(std::move(options));
    const Result<NetworkAddress> address = server_->ListenPlain("127.0.0.1:0");
    ASSERT_TRUE(address.ok()) << address.status().message();
    address_ = *address;
  }
  void StartTls(HttpOptions options) {
    StartServer(std::move(options));
    MakeCertificate("first", Path("certificate.pem"), Path("key.pem"));
    const auto address =
        server_->ListenTls("127.0.0.1:0", Path("certificate.pem"), Path("key.pem"));
    ASSERT_TRUE(address.ok()) << address.status().message();
    address_ = *address;
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::unique_ptr<RawClient> ConnectPlain() {
    return std::make_unique<RawClient>(std::make_unique<SocketWire>(ConnectTcp(address_)));
  }
  std::unique_ptr<TlsWire> Handshake(int most_version = TLS1_3_VERSION) {
    return std::make_unique<TlsWire>(ConnectTcp(address_), most_version);
  }
  NewToken Token(HttpScope scope = HttpScope::kOperator, int64_t seconds = 1000) {
    TokenOrder order;
    order.scope = scope;
    order.seconds = seconds;
    order.tenant = {7, 7, 7, "team-a"};
    return std::move(tokens_->Create(order)).value();
  }
  static std::string Asking(const std::string& method, const std::string& target,
                            const std::string& secret, const std::string& host = "127.0.0.1") {
    return method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " +
           secret + "\r\n\r\n";
  }

  std::atomic<int64_t> now_{1'700'000'000};
  std::string folder_;
  std::shared_ptr<TokenStore> tokens_;
  NetworkAddress address_;
};

TEST_F(HttpTcpTest, ATokenSaysWhoCalls) {
  StartPlain(OptionsWithTokens());
  const NewToken tenant = Token(HttpScope::kTenant);
  const NewToken metrics = Token(HttpScope::kMetrics);
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    const HttpRequest& request = exchange->request();
    EXPECT_FALSE(request.headers.contains("authorization"));
    HttpResponse response;
    response.body = request.caller.tenant.name + "|" + request.caller.name + "|" +
                    std::string(ScopeName(request.caller.scope));
    exchange->Respond(std::move(response));
  });
  const auto client = ConnectPlain();
  EXPECT_EQ(client->Ask(Asking("GET", "/a", tenant.secret)).body,
            "team-a|token " + tenant.token.id.substr(0, 8) + "|tenant");
  EXPECT_EQ(client->Ask(Asking("GET", "/a", metrics.secret)).body,
            "team-a|token " + metrics.token.id.substr(0, 8) + "|metrics");
}

TEST_F(HttpTcpTest, WithoutATokenThatHoldsNothingIsServedButTheOpenPaths) {
  StartPlain(OptionsWithTokens());
  const std::string host = "Host: localhost\r\n";
  std::vector<ReceivedResponse> refusals;
  for (const std::string& header :
       {std::string(), std::string("Authorization: Bearer hz_wrong\r\n"),
        std::string("Authorization: Basic YTpi\r\n"), std::string("Authorization: Bearer\r\n"),
        "Authorization: Bearer " + std::string(5000, 'x') + "\r\n"}) {
    const auto client = ConnectPlain();
    refusals.push_back(client->Ask("GET /v1/jobs HTTP/1.1\r\n" + host + header + "\r\n"));
    EXPECT_EQ(refusals.back().status, 401);
    EXPECT_NE(refusals.back().head.find("WWW-Authenticate: Bearer\r\n"), std::string::npos);
    EXPECT_EQ(refusals.back().body, refusals.front().body) << "the reason is not told";
    shutdown(client->fd(), SHUT_WR);
    EXPECT_EQ(client->ReadToEnd(), "");
  }
  // The body of a stranger is not read.
  EXPECT_EQ(
      ConnectPlain()->Ask("POST / HTTP/1.1\r\n" + host + "Content-Length: 60000\r\n\r\n").status,
      401);
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    HttpResponse response;
    response.body = "page";
    EXPECT_EQ(exchange->request().caller.scope, HttpScope::kStranger);
    exchange->Respond(std::move(response));
  });
  // The default of RefuseEarly lets no stranger in, so that a handler has to say so itself.
  EXPECT_EQ(ConnectPlain()->Ask(Get("/")).status, 401);
}

TEST_F(HttpTcpTest, TheHostHasToBeOneOfItsNames) {
  HttpOptions options = OptionsWithTokens();
  options.host_names = {"Node7.example"};
  StartPlain(std::move(options));
  const std::string secret = Token().secret;
  const std::string port = ":" + std::to_string(address_.port());
  for (const std::string& host :
       {std::string("localhost"), "127.0.0.1" + port, "NODE7.example" + port}) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", secret, host)).status, 200) << host;
  }
  for (const char* const host : {"evil.example", "127.0.0.2", "node7.example.evil", "::1"}) {
    EXPECT_GE(ConnectPlain()->Ask(Asking("GET", "/", secret, host)).status, 400) << host;
  }
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", secret, "evil.example")).status, 421);
}

TEST_F(HttpTcpTest, ASecretInTheAddressIsRefusedWithAnExplanation) {
  StartPlain(OptionsWithTokens());
  const std::string secret = Token().secret;
  const ReceivedResponse refused = ConnectPlain()->Ask(Get("/v1/jobs?token=" + secret));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("revoke the token"), std::string::npos);
  EXPECT_EQ(refused.body.find(secret), std::string::npos);
}

TEST_F(HttpTcpTest, PlainHttpIsForLoopbackAlone) {
  StartServer(OptionsWithTokens());
  for (const char* const address : {"0.0.0.0:0", "10.0.0.1:0", "[::]:0"}) {
    EXPECT_EQ(server_->ListenPlain(address).status().code(), Code::kInvalidArgument) << address;
  }
  EXPECT_EQ(server_->ListenPlain("localhost:0").status().code(), Code::kInvalidArgument)
      << "a name would have to be looked up";
}

TEST_F(HttpTcpTest, WithoutATokenStoreThereIsNoTcp) {
  StartServer();
  EXPECT_FALSE(server_->ListenPlain("127.0.0.1:0").ok());
}

TEST_F(HttpTcpTest, AnAddressThatIsTakenIsNamed) {
  StartPlain(OptionsWithTokens());
  const auto again = server_->ListenPlain(address_.ToString());
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find(address_.ToString()), std::string::npos);
}

TEST_F(HttpTcpTest, FailuresAreLimitedAndTokensThatHoldAreNot) {
  HttpOptions options = OptionsWithTokens();
  options.limits.stranger_requests = {0.01, 3};
  StartPlain(std::move(options));
  const std::string secret = Token().secret;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", "hz_wrong")).status, 401);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", "hz_wrong")).status, 429);
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", secret)).status, 200);
  }
}

TEST_F(HttpTcpTest, AFailureIsAnsweredLateHoweverItFailed) {
  HttpOptions options = OptionsWithTokens();
  options.limits.failure_answered_after = milliseconds(100);
  StartPlain(std::move(options));
  for (const char* const secret : {"", "x", "hz_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", secret)).status, 401);
    EXPECT_GE(std::chrono::steady_clock::now() - before, milliseconds(100));
  }
}

TEST_F(HttpTcpTest, ARevokedTokenEndsItsStreamsAndConnectionsAlone) {
  StartPlain(OptionsWithTokens());
  const NewToken revoked = Token();
  const NewToken other = Token();
  std::atomic<int> ended{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpStream>> streams;
  handler_->Set([&](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path.empty()) return exchange->Respond({});
    const std::lock_guard lock(mutex);
    streams.push_back(exchange->RespondWithStream([&](bool has_ended) { ended += has_ended; }));
  });
  const auto stream = ConnectPlain();
  ASSERT_TRUE(stream->Send(Asking("GET", "/events", revoked.secret)));
  EXPECT_NE(stream->ReadUntil("\r\n\r\n"), "");
  const auto idle = ConnectPlain();
  EXPECT_EQ(idle->Ask(Asking("GET", "/", revoked.secret)).status, 200);
  const auto others = ConnectPlain();
  ASSERT_TRUE(others->Send(Asking("GET", "/events", other.secret)));
  EXPECT_NE(others->ReadUntil("\r\n\r\n"), "");

  EXPECT_TRUE(tokens_->Revoke(revoked.token.id).ok());
  EXPECT_EQ(stream->ReadToEnd(), "");
  EXPECT_EQ(idle->ReadToEnd(), "");
  EXPECT_TRUE(Eventually([&] { return ended == 1; }));
  {
    const std::lock_guard lock(mutex);
    for (const auto& one : streams) one->Write("data: a\n\n");
  }
  EXPECT_NE(others->ReadUntil("data: a\n\n"), "");
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", revoked.secret)).status, 401);
  EXPECT_TRUE(server_->Close());
}

TEST_F(HttpTcpTest, AnExpiredTokenEndsItsStream) {
  HttpOptions options = OptionsWithTokens();
  StartPlain(std::move(options));
  const NewToken token = Token(HttpScope::kOperator, 1);
  std::atomic<int> ended{0};
  std::mutex mutex;
  std::shared_ptr<HttpStream> kept;
  handler_->Set([&](std::shared_ptr<HttpExchange> exchange) {
    const std::lock_guard lock(mutex);
    kept = exchange->RespondWithStream([&](bool has_ended) { ended += has_ended; });
  });
  const auto stream = ConnectPlain();
  ASSERT_TRUE(stream->Send(Asking("GET", "/events", token.secret)));
  EXPECT_NE(stream->ReadUntil("\r\n\r\n"), "");
  {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(kept->Write("data: a\n\n"));
  }
  EXPECT_NE(stream->ReadUntil("data: a\n\n\r\n"), "");
  EXPECT_EQ(ended, 0);
  now_ += 1;
  EXPECT_EQ(stream->ReadToEnd(), "");
  EXPECT_TRUE(Eventually([&] { return ended == 1; }));
  EXPECT_TRUE(server_->Close());
}

TEST_F(HttpTcpTest, AOneTimeTokenIsExchangedForASession) {
  StartPlain(OptionsWithTokens());
  const std::string one_time = *tokens_->CreateOneTime(HttpScope::kOperatorReadOnly, {}, "page");
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/v1/jobs", one_time)).status, 401);
  const ReceivedResponse exchanged =
      ConnectPlain()->Ask(Asking("POST", "/v1/token/exchange", one_time));
  ASSERT_EQ(exchanged.status, 201) << exchanged.body;
  const auto session = ReadJson(exchanged.body);
  EXPECT_EQ(session["scope"], "operator-read-only");
  EXPECT_EQ(session["expires"], now_ + kSessionSeconds);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/v1/jobs", session["token"])).status, 200);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", "/v1/token/exchange", one_time)).status, 401);
}

TEST_F(HttpTcpTest, SilentStrangersMakeRoomForOthers) {
  HttpOptions options = OptionsWithTokens();
  options.limits.address_strangers = 4;
  options.limits.stranger_stays = milliseconds(0);
  StartPlain(std::move(options));
  const std::string secret = Token().secret;
  const auto known = ConnectPlain();
  EXPECT_EQ(known->Ask(Asking("GET", "/", secret)).status, 200);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(ConnectPlain());
  for (int i = 0; i < 16; ++i) EXPECT_EQ(silent[static_cast<size_t>(i)]->ReadToEnd(), "");
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", secret)).status, 200);
  EXPECT_EQ(known->Ask(Asking("GET", "/", secret)).status, 200) << "who has a token stays";
}

TEST_F(HttpTcpTest, AFloodOfAnotherUserKeepsNobodyOut) {
  if (getuid() != 0) GTEST_SKIP() << "two users are needed";
  HttpOptions options = OptionsWithTokens();
  options.limits.address_strangers = 4;
  options.limits.stranger_stays = std::chrono::hours(1);
  StartPlain(std::move(options));
  setfsuid(65534);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(ConnectPlain());
  setfsuid(0);
  EXPECT_EQ(silent[5]->ReadToEnd(), "") << "the flood's own places are taken";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", Token().secret)).status, 200);
  }
}

TEST_F(HttpTcpTest, AConstantAnswerIsGivenMoreOftenThanOthers) {
  HttpOptions options = OptionsWithTokens();
  options.limits.caller_requests = {0.01, 2};
  options.limits.constant_requests = {0.01, 20};
  options.limits.stranger_requests = {0.01, 2};
  StartPlain(std::move(options));
  const std::string secret = Token().secret;
  const auto client = ConnectPlain();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client->Ask(Asking("GET", "/healthz", secret)).status, 200);
  }
  EXPECT_EQ(client->Ask(Asking("GET", "/healthz", secret)).status, 429) << "it has a bound, too";
  for (const int status : {200, 200, 429}) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/readyz", secret)).status, status);
  }
  for (const int status : {200, 200, 429}) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", "/healthz", secret)).status, status);
  }
  for (const int status : {401, 401, 429}) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/healthz", "hz_wrong")).status, status)
        << "tokens are not guessed there either";
  }
}

TEST_F(HttpTcpTest, AStrangerHasLittleTime) {
  HttpOptions options = OptionsWithTokens();
  options.limits.stranger_within = milliseconds(50);
  StartPlain(std::move(options));
  EXPECT_EQ(ConnectPlain()->ReadToEnd(), "");
}

TEST_F(HttpTcpTest, ATokenHasABoundedNumberOfConnections) {
  HttpOptions options = OptionsWithTokens();
  options.limits.token_connections = 2;
  StartPlain(std::move(options));
  const std::string secret = Token().secret;
  const auto first = ConnectPlain();
  const auto second = ConnectPlain();
  EXPECT_EQ(first->Ask(Asking("GET", "/", secret)).status, 200);
  EXPECT_EQ(second->Ask(Asking("GET", "/", secret)).status, 200);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", secret)).status, 429);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/", Token().secret)).status, 200);
}

TEST_F(HttpTcpTest, WhatOperatorsChangeIsWrittenDown) {
  HttpOptions options = OptionsWithTokens();
  options.audit = std::move(AuditLog::Start(folder_, {})).value();
  const std::shared_ptr<AuditLog> audit = options.audit;
  StartPlain(std::move(options));
  const NewToken token = Token();
  const NewToken tenant = Token(HttpScope::kTenant);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", "/v1/a%20b?reason=x", token.secret)).status, 200);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("GET", "/v1/c", token.secret)).status, 200);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", "/v1/d", tenant.secret)).status, 200);
  EXPECT_EQ(Connect(0, HttpScope::kOperator)->Ask(Post("/v1/e", "{\"secret\": 1}")).status, 200);
  audit->Flush();
  std::ifstream file(Path(kAuditFile));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(ReadJson(line));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["who"], "token " + token.token.id.substr(0, 8));
  EXPECT_EQ(lines[0]["path"], "/v1/a%20b");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[1]["who"], "uid 0");
  EXPECT_EQ(lines[1]["path"], "/v1/e");
}

// Whoever does not wait for the answer is written down all the same.
TEST_F(HttpTcpTest, WhatAnOperatorChangesAndDoesNotWaitForIsWrittenDown) {
  HttpOptions options = OptionsWithTokens();
  options.audit = std::move(AuditLog::Start(folder_, {})).value();
  const std::shared_ptr<AuditLog> audit = options.audit;
  StartPlain(std::move(options));
  std::mutex mutex;
  std::vector<std::shared_ptr<HttpExchange>> taken;
  handler_->Set([&](std::shared_ptr<HttpExchange> exchange) {
    const std::lock_guard lock(mutex);
    taken.push_back(std::move(exchange));
  });
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return taken.size();
  };
  constexpr size_t kRequests = 5;
  for (size_t i = 1; i <= kRequests; ++i) {
    {
      const auto client = Connect(0, HttpScope::kOperator);
      client->Send(Post("/v1/e", "{}"));
      while (count() < i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::lock_guard lock(mutex);
    taken[i - 1]->Respond({.status = 201});
  }
  audit->Flush();
  std::ifstream file(Path(kAuditFile));
  size_t lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    EXPECT_EQ(ReadJson(line)["status"], 201);
  }
  EXPECT_EQ(lines, kRequests);
}

TEST_F(HttpTcpTest, AnOperatorThatMayOnlyReadCannotFillTheAuditLog) {
  HttpOptions options = OptionsWithTokens();
  options.audit = std::move(AuditLog::Start(folder_, {})).value();
  options.limits.caller_requests = {0.01, 10};
  std::shared_ptr<AuditLog> audit = options.audit;
  StartPlain(std::move(options));
  handler_->Set(
      [](std::shared_ptr<HttpExchange> exchange) { exchange->Respond(HttpProblem(403, "no")); });
  const NewToken reader = Token(HttpScope::kOperatorReadOnly);
  const NewToken changer = Token();
  const std::string long_path = "/" + std::string(3000, 'x');
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", long_path, reader.secret)).status, 403);
    EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", long_path, changer.secret)).status, 403);
  }
  EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", "/", changer.secret)).status, 429);
  EXPECT_EQ(ConnectPlain()->Ask(Asking("POST", "/", reader.secret)).status, 429);
  server_.reset();
  audit.reset();  // writes what waits
  std::ifstream file(Path(kAuditFile));
  int tries = 0;
  int refused = 0;
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = ReadJson(text);
    if (line.contains("refused")) {
      refused += line["refused"].get<int>();
      EXPECT_EQ(line["last_refused"], "token " + reader.token.id.substr(0, 8));
      continue;
    }
    ++tries;
    EXPECT_EQ(line["who"], "token " + changer.token.id.substr(0, 8));
    EXPECT_EQ(line["path"], long_path.substr(0, 256) + "...");
  }
  EXPECT_EQ(tries, 10);
  EXPECT_EQ(refused, 10);
}

// ---------------------------------------------------------------------------------------------
// TLS

TEST_F(HttpTcpTest, RequestsAndStreamsGoThroughTls) {
  StartTls(OptionsWithTokens());
  const std::string secret = Token().secret;
  handler_->Set([](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path.empty()) {
      HttpResponse response;
      response.body = std::string(1 << 20, 'x');
      return exchange->Respond(std::move(response));
    }
    const auto opened = exchange->RespondWithStream(nullptr);
    opened->Write("data: " + std::string(100'000, 'y') + "\n\n");
    opened->End();
  });
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    std::unique_ptr<TlsWire> wire = Handshake(version);
    ASSERT_TRUE(wire->is_connected());
    EXPECT_EQ(wire->PeerName(), "first");
    TlsWire* const kept = wire.get();
    RawClient client(std::move(wire));
    EXPECT_EQ(client.Ask(Asking("GET", "/", secret)).body.size(), size_t{1} << 20);
    ASSERT_TRUE(client.Send(Asking("GET", "/events", secret)));
    EXPECT_NE(client.ReadUntil("yyy\n\n\r\n0\r\n\r\n"), "");
    EXPECT_EQ(client.ReadToEnd(), "");
    EXPECT_TRUE(kept->has_ended_properly()) << "TLS says that nothing is missing";
  }
}

TEST_F(HttpTcpTest, OldVersionsOfTlsAndPlainTextGetNothing) {
  StartTls(OptionsWithTokens());
  EXPECT_FALSE(Handshake(TLS1_1_VERSION)->is_connected());
  const auto plain = ConnectPlain();
  ASSERT_TRUE(plain->Send(Asking("GET", "/", Token().secret)));
  EXPECT_EQ(plain->ReadToEnd().find("HTTP"), std::string::npos);
  EXPECT_TRUE(Handshake()->is_connected());
}

TEST_F(HttpTcpTest, AHandshakeThatStandsStillEnds) {
  HttpOptions options = OptionsWithTokens();
  options.limits.stranger_within = milliseconds(50);
  StartTls(std::move(options));
  const auto silent = ConnectPlain();
  ASSERT_TRUE(silent->Send("\x16\x03\x01"));
  EXPECT_EQ(silent->ReadToEnd(), "");
}

TEST_F(HttpTcpTest, ACertificateThatHasChangedIsTakenForNewConnections) {
  HttpOptions options = OptionsWithTokens();
  options.limits.certificate_look = milliseconds(5);
  StartTls(std::move(options));
  RawClient before(Handshake());
  // A certificate without its key yet does no harm.
  MakeCertificate("second", Path("certificate.pem"), Path("key-of-second.pem"));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(Handshake()->PeerName(), "first");
  fs::rename(Path("key-of-second.pem"), Path("key.pem"));
  EXPECT_TRUE(Eventually([&] { return Handshake()->PeerName() == "second"; }));
  EXPECT_EQ(before.Ask(Asking("GET", "/", Token().secret)).status, 200);
}

TEST_F(HttpTcpTest, ErrorsOfCertificatesNameTheFile) {
  MakeCertificate("first", Path("certificate.pem"), Path("key.pem"));
  MakeCertificate("second", Path("certificate-2.pem"), Path("key-2.pem"));
  std::ofstream(Path("text.pem")) << "no PEM";
  struct Case {
    std::string certificate;
    std::string key;
    std::string named;
  };
  for (const Case& one :
       {Case{"missing.pem", "key.pem", "missing.pem"},
        Case{"certificate.pem", "missing.pem", "missing.pem"},
        Case{"text.pem", "key.pem", "text.pem"}, Case{"certificate.pem", "text.pem", "text.pem"},
        Case{"certificate.pem", "key-2.pem", "key-2.pem"}}) {
    const auto loaded = TlsCertificate::Load(Path(one.certificate), Path(one.key));
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.status().message().find(Path(one.named)), std::string::npos)
        << loaded.status().message();
  }
}

TEST_F(HttpTcpTest, ManyTlsClientsAtOnceAreServed) {
  StartTls(OptionsWithTokens());
  const std::string secret = Token().secret;
  std::vector<std::thread> clients;
  std::atomic<int> answered{0};
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        RawClient client(Handshake());
        answered += client.Ask(Asking("GET", "/a", secret)).status == 200;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 40);
}

TEST_F(HttpTcpTest, TheServerClosesWhileClientsAreConnected) {
  StartTls(OptionsWithTokens());
  const std::unique_ptr<TlsWire> idle = Handshake();
  const auto half = ConnectPlain();
  EXPECT_TRUE(server_->Close());
  EXPECT_EQ(idle->Receive(), "");
  EXPECT_EQ(half->ReadToEnd(), "");
  EXPECT_TRUE(tokens_->Revoke(Token().token.id).ok());
}

}  // namespace
}  // namespace harmonaize::daemon
