// Events on a real server of NATS: what arrives, who may read it, and what happens while the server
// is away.

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <nlohmann/json.hpp>

#include "daemon/nats/event_forwarder.h"
#include "daemon/nats/nats_connection.h"
#include "daemon/nats/nats_subject.h"
#include "src/base/json_text.h"
#include "tests/unit/daemon/nats/captured_log.h"
#include "tests/unit/daemon/nats/nats_server_process.h"

namespace harmonaize::daemon {
namespace {

namespace fs = std::filesystem;
using harmonaize::testing::KeptMessage;
using harmonaize::testing::NatsClient;
using harmonaize::testing::NatsServerProcess;
using std::chrono::milliseconds;

constexpr char kJetStream[] = "jetstream: {store_dir: \"FOLDER\"}\n";
constexpr char kStream[] = "harmonaize_events";

class NatsServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = NatsServerProcess::WhyNot();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    folder_ = NatsServerProcess::MakeFolder();
  }
  ~NatsServerTest() override {
    forwarder_.reset();
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  void StartServer(const std::string& config = kJetStream) {
    server_ = std::make_unique<NatsServerProcess>(config);
  }
  /// Publishes with the configuration, which must be right.
  void StartForwarder(const NatsConfig& config, EventOutbox::Limits limits = {}) {
    Result<NatsSettings> settings = CheckNatsConfig(config);
    ASSERT_TRUE(settings.ok()) << settings.status().message();
    Result<std::unique_ptr<NatsLink>> link = MakeNatsLink(std::move(*settings));
    ASSERT_TRUE(link.ok()) << link.status().message();
    forwarder_ = std::make_unique<EventForwarder>(
        std::move(*link),
        EventForwarder::Options{.limits = limits, .first_pause_ms = 10, .longest_pause_ms = 200});
  }
  NatsConfig ConfigOf(const std::string& url) const {
    return {.servers = {url}, .keep_bytes = 8 << 20};
  }
  /// Writes a file that others cannot read, and returns its path.
  std::string Secret(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  static Event EventOf(uint64_t unique) {
    return {.job = "0123456789abcdef0123456789abcdef",
            .unique = unique,
            .type = EventType::kRankLate,
            .subject = "ranks/3",
            .data = R"({"ranks":[3]})"};
  }
  void Publish(const TenantIdentity& tenant, uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i) forwarder_->Publish(tenant, EventOf(i));
  }
  bool AllSent() const {
    return Eventually([this] { return forwarder_->counts().waiting == 0; });
  }
  /// Waits for a line of the log.
  bool Logged(const std::string& text) const {
    return Eventually([&] { return !log_.With(text).empty(); });
  }
  /// Returns whether that is so within half a minute.
  template <typename Condition>
  static bool Eventually(Condition&& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }
  /// Returns the numbers of the events of a tenant, in the stream's order.
  static std::vector<uint64_t> NumbersOf(const std::vector<KeptMessage>& kept,
                                         const std::string& tenant) {
    std::vector<uint64_t> numbers;
    for (const KeptMessage& one : kept) {
      if (!one.subject.starts_with("harmonaize.events." + SubjectToken(tenant) + ".")) continue;
      const std::optional<EventId> id = ParseEventId(one.id);
      EXPECT_TRUE(id.has_value()) << one.id;
      if (id.has_value()) numbers.push_back(id->unique);
    }
    return numbers;
  }
  static std::vector<uint64_t> Numbers(uint64_t first, uint64_t last) {
    std::vector<uint64_t> numbers;
    for (uint64_t i = first; i <= last; ++i) numbers.push_back(i);
    return numbers;
  }

  const TenantIdentity alice_{.number = 1, .across_hosts = 1, .user = 1, .name = "team-a"};
  const TenantIdentity bob_{.number = 2, .across_hosts = 2, .user = 2, .name = "uid 1000"};
  CapturedLog log_;
  std::string folder_;
  std::unique_ptr<NatsServerProcess> server_;
  std::unique_ptr<EventForwarder> forwarder_;
};

TEST_F(NatsServerTest, EventsArriveOnceAndInOrder) {
  StartServer();
  StartForwarder(ConfigOf(server_->url()));
  Publish(alice_, 1, 150);
  Publish(bob_, 1001, 1050);
  ASSERT_TRUE(AllSent()) << log_.text();
  // The same again, as after an answer that was lost.
  Publish(alice_, 141, 150);
  ASSERT_TRUE(AllSent());
  NatsClient client(server_->url());
  const std::vector<KeptMessage> kept = client.Read(kStream);
  ASSERT_EQ(kept.size(), 200u) << log_.text();
  EXPECT_EQ(NumbersOf(kept, "team-a"), Numbers(1, 150));
  EXPECT_EQ(NumbersOf(kept, "uid 1000"), Numbers(1001, 1050));
  EXPECT_EQ(kept[0].subject, "harmonaize.events.team-a.0123456789abcdef0123456789abcdef.rank.late");
  EXPECT_EQ(kept[0].content_type, "application/cloudevents+json; charset=UTF-8");
  const nlohmann::json event = ReadJson(kept[0].content);
  EXPECT_EQ(event.at("id"), kept[0].id);
  EXPECT_EQ(event.at("subject"), "ranks/3");
  EXPECT_EQ(event.at("data").at("ranks"), nlohmann::json::array({3}));
}

TEST_F(NatsServerTest, NamesThatMeanSomethingToNatsMeanNothing) {
  StartServer();
  StartForwarder(ConfigOf(server_->url()));
  NatsClient client(server_->url());
  natsSubscription* const all = client.Subscribe("harmonaize.events.*.*.rank.late");
  const std::vector<std::string> names = {"*",
                                          ">",
                                          "a.>",
                                          "a.*.b",
                                          "",
                                          "uid 0 in /kubepods/pod7",
                                          "\r\nPUB x 0\r\n\r\n",
                                          "\xff\x01",
                                          "$JS.API.STREAM.DELETE.harmonaize_events",
                                          std::string(kMostTenantBytes, '.')};
  for (size_t i = 0; i < names.size(); ++i) {
    Event event = EventOf(i + 1);
    event.job = names[i].substr(0, kMostJobIdBytes);
    forwarder_->Publish({.number = static_cast<uint32_t>(i), .name = names[i]}, event);
  }
  forwarder_->PublishToOperators({.unique = 99, .type = EventType::kHostFailing});
  ASSERT_TRUE(AllSent()) << log_.text();
  EXPECT_EQ(forwarder_->counts().sent, names.size() + 1);
  EXPECT_EQ(NatsClient::Received(all, 200).size(), names.size());
  const std::vector<KeptMessage> kept = client.Read(kStream);
  ASSERT_EQ(kept.size(), names.size() + 1);
  EXPECT_EQ(std::count_if(kept.begin(), kept.end(),
                          [](const KeptMessage& one) {
                            return one.subject == "harmonaize.events._operators.host.host.failing";
                          }),
            1);
}

TEST_F(NatsServerTest, TheStreamIsLimitedAsConfigured) {
  StartServer();
  NatsConfig config = ConfigOf(server_->url());
  config.subject_prefix = "prod-2";
  config.keep_seconds = 3600;
  StartForwarder(config);
  ASSERT_TRUE(Logged("the stream prod-2_events was made")) << log_.text();
  NatsClient client(server_->url());
  const auto about = ReadJson(*client.Ask("$JS.API.STREAM.INFO.prod-2_events", ""));
  EXPECT_EQ(about.at("config").at("subjects"), nlohmann::json::array({"prod-2.events.>"}));
  EXPECT_EQ(about.at("config").at("max_bytes"), 8 << 20);
  EXPECT_EQ(about.at("config").at("max_age"), 3'600'000'000'000);
  EXPECT_EQ(about.at("config").at("discard"), "old");
  EXPECT_EQ(about.at("config").at("storage"), "file");
}

TEST_F(NatsServerTest, AStreamThatTheProviderHasMadeIsUsed) {
  StartServer();
  NatsClient client(server_->url());
  const std::optional<std::string> made = client.Ask(
      "$JS.API.STREAM.CREATE.team-a",
      R"({"name":"team-a","subjects":["harmonaize.events.team-a.>"],"retention":"limits",)"
      R"("max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"storage":"memory",)"
      R"("num_replicas":1})");
  ASSERT_TRUE(made.has_value());
  StartForwarder(ConfigOf(server_->url()));
  Publish(alice_, 1, 3);
  ASSERT_TRUE(AllSent()) << log_.text();
  EXPECT_EQ(client.Messages("team-a"), 3u);
  EXPECT_EQ(client.Messages(kStream), std::nullopt);
  // Nobody has made one for the other tenant, whose events wait and hold nobody up.
  Publish(bob_, 1, 1);
  Publish(alice_, 4, 6);
  EXPECT_TRUE(client.WaitForMessages("team-a", 6));
  // The stream may have the last message before the forwarder knows.
  EXPECT_TRUE(Eventually([&] { return forwarder_->counts().waiting == 1; }));
  EXPECT_TRUE(Logged("no stream takes events with the subject harmonaize.events.uid_201000."))
      << log_.text();
}

// ---------------------------------------------------------------------------------------------
// Who may do what, with the configuration in docs/nats.md

class NatsAccountsTest : public NatsServerTest {
 protected:
  void StartAccounts() {
    std::ifstream file(NATS_DOCUMENT);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t begin = text.find("```\njetstream:");
    ASSERT_NE(begin, std::string::npos);
    std::string config = text.substr(begin + 4, text.find("\n```", begin + 4) - begin - 4);
    const std::string store = "/var/lib/nats";
    ASSERT_NE(config.find(store), std::string::npos);
    config.replace(config.find(store), store.size(), "FOLDER");
    StartServer(config + "\n");
    NatsConfig of_daemon = ConfigOf(server_->url());
    of_daemon.credentials_file = Secret("daemon", "daemon:change-me-daemon\n");
    StartForwarder(of_daemon);
  }
  std::unique_ptr<NatsClient> As(const std::string& user, const std::string& password) {
    auto client = std::make_unique<NatsClient>(server_->url(), NatsClient::User{user, password});
    EXPECT_TRUE(client->connected()) << user;
    return client;
  }
};

TEST_F(NatsAccountsTest, ATenantHearsItsOwnEventsAndNoOthers) {
  StartAccounts();
  const auto operators = As("operator", "change-me-operator");
  ASSERT_TRUE(Eventually([&] { return operators->Messages(kStream).has_value(); })) << log_.text();
  ASSERT_EQ(operators->AddConsumer(kStream, "team-a", "harmonaize.events.team-a.>"), NATS_OK);
  ASSERT_EQ(operators->AddConsumer(kStream, "uid_201000", "harmonaize.events.uid_201000.>"),
            NATS_OK);
  const auto team_a = As("team-a", "change-me-a");
  natsSubscription* const everything = team_a->Subscribe(">");
  Publish(alice_, 1, 5);
  Publish(bob_, 101, 105);
  forwarder_->PublishToOperators({.unique = 99, .type = EventType::kHostFailing});
  ASSERT_TRUE(AllSent()) << log_.text();
  EXPECT_EQ(operators->Messages(kStream), 11u);
  // As they come.
  EXPECT_EQ(NatsClient::Received(everything, 300),
            std::vector<std::string>(
                5, "harmonaize.events.team-a.0123456789abcdef0123456789abcdef.rank.late"));
  // Later, by the consumer, which keeps its place.
  std::vector<KeptMessage> pulled = team_a->Pull(kStream, "team-a", 3);
  const std::vector<KeptMessage> rest = team_a->Pull(kStream, "team-a", 10);
  pulled.insert(pulled.end(), rest.begin(), rest.end());
  ASSERT_EQ(pulled.size(), 5u);
  for (size_t i = 0; i < pulled.size(); ++i) EXPECT_EQ(pulled[i].id, EventOf(i + 1).id());
  // The other tenant's consumer is out of reach.
  EXPECT_TRUE(team_a->Pull(kStream, "uid_201000", 10).empty());
  EXPECT_EQ(As("uid-1000", "change-me-1000")->Pull(kStream, "uid_201000", 10).size(), 5u);
}

TEST_F(NatsAccountsTest, ATenantCanNeitherPublishNorRule) {
  StartAccounts();
  const auto operators = As("operator", "change-me-operator");
  Publish(alice_, 1, 1);
  Publish(bob_, 2, 2);
  ASSERT_TRUE(AllSent()) << log_.text();
  const auto team_a = As("team-a", "change-me-a");
  natsSubscription* const heard = operators->Subscribe("harmonaize.events.>");
  for (const std::string tenant : {"team-a", "uid_201000", "_operators"}) {
    team_a->Publish("harmonaize.events." + tenant + ".0.rank.lost", "{}");
  }
  EXPECT_TRUE(NatsClient::Received(heard, 200).empty());
  EXPECT_EQ(operators->Messages(kStream), 2u);
  for (const std::string subject :
       {"$JS.API.STREAM.INFO.harmonaize_events", "$JS.API.STREAM.DELETE.harmonaize_events",
        "$JS.API.STREAM.PURGE.harmonaize_events", "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.MSG.GET.harmonaize_events", "$JS.API.CONSUMER.NAMES.harmonaize_events",
        "$JS.API.CONSUMER.DURABLE.CREATE.harmonaize_events.mine"}) {
    const std::optional<std::string> answer = team_a->Ask(subject, R"({"seq":2})");
    // The tenant's own account may answer that it has no JetStream.
    EXPECT_TRUE(!answer.has_value() || answer->find("error") != std::string::npos) << *answer;
  }
  EXPECT_EQ(operators->Messages(kStream), 2u);
  // What the daemon itself may do is no more than it needs.
  const auto daemon = As("daemon", "change-me-daemon");
  daemon->Publish("$JS.API.STREAM.DELETE.harmonaize_events", "");
  EXPECT_EQ(operators->Messages(kStream), 2u);
}

TEST_F(NatsServerTest, WrongCredentialsAreNamedAndTriedAgain) {
  StartServer(std::string(kJetStream) + "authorization: {user: \"daemon\", password: \"right\"}\n");
  NatsConfig config = ConfigOf(server_->url());
  config.credentials_file = Secret("credentials", "daemon:wrong\n");
  StartForwarder(config);
  Publish(alice_, 1, 3);
  ASSERT_TRUE(Logged("Authorization Violation")) << log_.text();
  ASSERT_FALSE(log_.With("events are not published to NATS now").empty());
  EXPECT_TRUE(log_.With("wrong").empty()) << "no secret in the log";
  EXPECT_TRUE(log_.With(".c:").empty()) << log_.text();
  Secret("credentials", "daemon:right\n");
  ASSERT_TRUE(AllSent()) << log_.text();
  NatsClient client(server_->url(), {.name = "daemon", .password = "right"});
  EXPECT_EQ(client.Messages(kStream), 3u);
}

TEST_F(NatsServerTest, AServerWithoutJetStreamIsNamed) {
  StartServer("");
  StartForwarder(ConfigOf(server_->url()));
  Publish(alice_, 1, 3);
  EXPECT_TRUE(Logged("no stream takes events with the subject harmonaize.events.team-a."))
      << log_.text();
  EXPECT_EQ(forwarder_->counts().waiting, 3u);
}

// ---------------------------------------------------------------------------------------------
// While the server is away

TEST_F(NatsServerTest, EventsWaitForAServerThatWasKilled) {
  StartServer();
  StartForwarder(ConfigOf(server_->url()), {.events_of_tenant = 20});
  Publish(alice_, 1, 10);
  ASSERT_TRUE(AllSent()) << log_.text();
  server_->Kill();
  Publish(alice_, 11, 60);
  Publish(bob_, 101, 105);
  ASSERT_TRUE(Logged("events are not published to NATS now")) << log_.text();
  // One of them may be on its way, and so beyond the bound.
  EXPECT_LE(forwarder_->counts().waiting, 26u);
  server_->StartAgain();
  ASSERT_TRUE(AllSent()) << log_.text();
  NatsClient client(server_->url());
  const std::vector<KeptMessage> kept = client.Read(kStream);
  std::vector<uint64_t> of_alice = NumbersOf(kept, "team-a");
  EXPECT_TRUE(std::is_sorted(of_alice.begin(), of_alice.end()));
  EXPECT_EQ(std::vector<uint64_t>(of_alice.end() - 20, of_alice.end()), Numbers(41, 60))
      << "the newest are kept";
  EXPECT_EQ(of_alice.size(), 60 - forwarder_->counts().given_up);
  EXPECT_EQ(NumbersOf(kept, "uid 1000"), Numbers(101, 105));
  EXPECT_TRUE(Logged("events were not published to NATS, since too many waited")) << log_.text();
  EXPECT_TRUE(Logged("events are published to NATS again, at nats://127.0.0.1:")) << log_.text();
}

TEST_F(NatsServerTest, AnotherServerIsTriedWhereOneIsAway) {
  StartServer();
  NatsServerProcess gone(kJetStream);
  gone.Kill();
  NatsConfig config = ConfigOf(gone.url());
  config.servers.push_back(server_->url());
  StartForwarder(config);
  Publish(alice_, 1, 3);
  ASSERT_TRUE(AllSent()) << log_.text();
  EXPECT_EQ(NatsClient(server_->url()).Messages(kStream), 3u);
}

TEST_F(NatsServerTest, AFloodOfOneTenantIsBoundedAndHoldsNobodyUp) {
  StartServer();
  StartForwarder(ConfigOf(server_->url()), {.events_of_tenant = 256});
  ASSERT_TRUE(Logged("was made")) << log_.text();
  NatsClient client(server_->url());
  natsSubscription* const of_bob = client.Subscribe("harmonaize.events.uid_201000.>");
  // All of them would fit into the stream.
  for (uint64_t i = 1; i <= 10'000; ++i) {
    forwarder_->Publish(alice_, EventOf(i));
    EXPECT_LE(forwarder_->counts().waiting, 512u);
    if (i % 1000 == 0) forwarder_->Publish(bob_, EventOf(100'000 + i));
  }
  EXPECT_EQ(NatsClient::Received(of_bob, 2000).size(), 10u);
  ASSERT_TRUE(AllSent()) << log_.text();
  const EventForwarder::Counts counts = forwarder_->counts();
  EXPECT_EQ(counts.sent + counts.given_up, 10'010u);
  EXPECT_EQ(client.Messages(kStream), counts.sent);
}

TEST_F(NatsServerTest, AnEventThatIsTooLongForTheServerIsGivenUp) {
  StartServer(std::string(kJetStream) + "max_payload: 2048\n");
  StartForwarder(ConfigOf(server_->url()));
  Event longer = EventOf(2);
  longer.data = R"({"text":")" + std::string(4096, 'x') + "\"}";
  Publish(alice_, 1, 1);
  forwarder_->Publish(alice_, longer);
  Publish(alice_, 3, 3);
  ASSERT_TRUE(AllSent()) << log_.text();
  EXPECT_EQ(forwarder_->counts().given_up, 1u);
  EXPECT_EQ(NumbersOf(NatsClient(server_->url()).Read(kStream), "team-a"),
            (std::vector<uint64_t>{1, 3}));
  EXPECT_FALSE(log_.With("is not published to NATS: nats://127.0.0.1").empty()) << log_.text();
}

// ---------------------------------------------------------------------------------------------
// TLS

/// Writes a certificate for a subject such as "IP:127.0.0.1", signed by its own key, and the key.
void WriteCertificate(const std::string& subject, const std::string& certificate_path,
                      const std::string& key_path) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  ASSERT_EQ(X509_set_version(certificate.get(), 2), 1);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, subject.c_str());
  ASSERT_NE(extension, nullptr);
  X509_add_ext(certificate.get(), extension, -1);
  X509_EXTENSION_free(extension);
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  std::FILE* file = std::fopen(certificate_path.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(file, certificate.get()), 1);
  std::fclose(file);
  file = std::fopen(key_path.c_str(), "w");
  EXPECT_EQ(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  std::fclose(file);
}

class NatsTlsTest : public NatsServerTest {
 protected:
  void StartTls(const std::string& subject) {
    WriteCertificate(subject, folder_ + "/certificate.pem", folder_ + "/key.pem");
    StartServer(std::string(kJetStream) + "tls: {cert_file: \"" + folder_ +
                "/certificate.pem\", key_file: \"" + folder_ +
                "/key.pem\"}\nauthorization: {user: \"daemon\", password: \"right\"}\n");
  }
  NatsConfig TlsConfig(const std::string& host) const {
    NatsConfig config = ConfigOf(server_->url("tls", host));
    config.ca_file = folder_ + "/certificate.pem";
    config.credentials_file = Secret("credentials", "daemon:right\n");
    return config;
  }
  uint64_t MessagesOfServer() const {
    NatsClient client(
        server_->url("tls"),
        {.name = "daemon", .password = "right", .ca_file = folder_ + "/certificate.pem"});
    return client.connected() ? client.Messages(kStream).value_or(0) : 0;
  }
};

TEST_F(NatsTlsTest, ACertificateThatNamesTheAddressIsBelieved) {
  StartTls("IP:127.0.0.1");
  StartForwarder(TlsConfig("127.0.0.1"));
  Publish(alice_, 1, 3);
  ASSERT_TRUE(AllSent()) << log_.text();
  EXPECT_EQ(MessagesOfServer(), 3u);
}

TEST_F(NatsTlsTest, ACertificateThatNamesTheHostIsBelieved) {
  StartTls("DNS:localhost");
  StartForwarder(TlsConfig("localhost"));
  Publish(alice_, 1, 3);
  ASSERT_TRUE(AllSent()) << log_.text();
}

TEST_F(NatsTlsTest, ACertificateForAnotherHostIsRefused) {
  StartTls("DNS:nats.example");
  StartForwarder(TlsConfig("127.0.0.1"));
  Publish(alice_, 1, 3);
  ASSERT_TRUE(Logged("events are not published to NATS now")) << log_.text();
  EXPECT_FALSE(log_.With("mismatch").empty()) << log_.text();
  EXPECT_EQ(forwarder_->counts().sent, 0u);
}

TEST_F(NatsTlsTest, ACertificateThatNobodyTrustedHasSignedIsRefused) {
  StartTls("IP:127.0.0.1");
  NatsConfig config = TlsConfig("127.0.0.1");
  WriteCertificate("IP:127.0.0.1", folder_ + "/other.pem", folder_ + "/other-key.pem");
  for (const std::string& trusted : {folder_ + "/other.pem", std::string()}) {
    config.ca_file = trusted;
    StartForwarder(config);
    Publish(alice_, 1, 3);
    ASSERT_TRUE(Logged("events are not published to NATS now")) << log_.text();
    EXPECT_EQ(forwarder_->counts().sent, 0u);
    forwarder_.reset();
  }
  EXPECT_FALSE(log_.With("certificate").empty()) << log_.text();
}

TEST_F(NatsTlsTest, NothingIsSaidToAServerWithoutTls) {
  StartServer(std::string(kJetStream) + "authorization: {user: \"daemon\", password: \"right\"}\n");
  NatsConfig config = ConfigOf(server_->url("tls"));
  config.credentials_file = Secret("credentials", "daemon:right\n");
  StartForwarder(config);
  Publish(alice_, 1, 3);
  ASSERT_TRUE(Logged("events are not published to NATS now")) << log_.text();
  EXPECT_EQ(forwarder_->counts().sent, 0u);
}

}  // namespace
}  // namespace harmonaize::daemon
