// What events are called on NATS, and what the configuration of NATS may say.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "daemon/nats/nats_settings.h"
#include "daemon/nats/nats_subject.h"
#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {
namespace {

const Event kLate{.job = "0123456789abcdef0123456789abcdef", .type = EventType::kRankLate};

TEST(NatsSubject, NamesTenantJobAndType) {
  EXPECT_EQ(SubjectOf("harmonaize", "team-a", kLate),
            "harmonaize.events.team-a.0123456789abcdef0123456789abcdef.rank.late");
  EXPECT_EQ(SubjectOf("prod", "uid 1000", {.type = EventType::kHostFailing}),
            "prod.events.uid_201000.host.host.failing");
  EXPECT_EQ(SubjectForOperators("prod", {.type = EventType::kHostFailing}),
            "prod.events._operators.host.host.failing");
  EXPECT_EQ(AllSubjects("prod"), "prod.events.>");
  EXPECT_EQ(StreamName("prod"), "prod_events");
}

TEST(NatsSubject, NoByteOfANameHasAMeaning) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = SubjectToken(std::string(1, static_cast<char>(byte)));
    EXPECT_FALSE(token.empty());
    EXPECT_EQ(token.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-_"),
              std::string::npos)
        << byte;
  }
  for (const std::string name :
       {"*", ">", "a.>", "a.b", "a b", "", "\r\nPUB x 0\r\n", "\xff\xfe"}) {
    const std::string subject = SubjectOf("harmonaize", name, {.job = name});
    EXPECT_EQ(std::count(subject.begin(), subject.end(), '.'), 5) << subject;
    EXPECT_EQ(subject.find_first_of("*> \r\n"), std::string::npos) << subject;
    EXPECT_EQ(subject.find(".."), std::string::npos) << subject;
  }
}

// The names are what one might take for each other after encoding.
TEST(NatsSubject, TwoNamesNeverHaveOneToken) {
  const std::set<std::string> names = {"",   "_",    "__",  "_20",  " ",  "_5f",
                                       "5f", "a",    "A",   "a_20", "a ", "_operators",
                                       "op", "host", "_2a", "*",    "\n", "0a"};
  std::set<std::string> tokens;
  for (const std::string& name : names) tokens.insert(SubjectToken(name));
  EXPECT_EQ(tokens.size(), names.size());
  EXPECT_FALSE(tokens.contains("_operators"));
}

TEST(NatsSubject, TheLongestFitsInALineOfTheProtocol) {
  const Event event{.job = std::string(kMostJobIdBytes, '~'),
                    .type = EventType::kMaintenanceScheduled};
  const std::string prefix(kMostSubjectPrefixBytes, 'p');
  EXPECT_LT(SubjectOf(prefix, std::string(kMostTenantBytes, '.'), event).size(), 3000u);
}

TEST(NatsSubject, APrefixIsOneToken) {
  EXPECT_TRUE(IsSubjectPrefix("harmonaize"));
  EXPECT_TRUE(IsSubjectPrefix("Prod_2-b"));
  for (const std::string wrong : {"", "a.b", "*", ">", "a b", "ä", "$JS"}) {
    EXPECT_FALSE(IsSubjectPrefix(wrong)) << wrong;
  }
  EXPECT_FALSE(IsSubjectPrefix(std::string(kMostSubjectPrefixBytes + 1, 'a')));
}

TEST(NatsSettings, AServerElsewhereIsSpokenToWithTls) {
  for (const std::string here : {"127.0.0.1", "127.8.7.6", "localhost", "[::1]"}) {
    const Result<NatsServer> server = ParseNatsServer("nats://" + here);
    ASSERT_TRUE(server.ok()) << server.status().message();
    EXPECT_TRUE(server->loopback);
    EXPECT_FALSE(server->tls);
    EXPECT_EQ(server->port, 4222);
    EXPECT_EQ(server->url(), "nats://" + here + ":4222");
  }
  for (const std::string there : {"10.0.0.1", "128.0.0.1", "nats.example", "localhost.example",
                                  "[::ffff:127.0.0.1]", "0.0.0.0"}) {
    const Result<NatsServer> server = ParseNatsServer("nats://" + there + ":4223");
    ASSERT_TRUE(server.ok()) << server.status().message();
    EXPECT_FALSE(server->loopback) << there;
    EXPECT_TRUE(server->tls) << there;
    EXPECT_EQ(server->url(), "tls://" + there + ":4223");
  }
  EXPECT_TRUE(ParseNatsServer("tls://127.0.0.1")->tls);
}

TEST(NatsSettings, RefusesWhatIsNoServer) {
  for (const std::string wrong :
       {"", "host", "http://host", "nats://", "nats://:4222", "nats://host:", "nats://host:0",
        "nats://host:65536", "nats://host:4x", "nats://user:word@host", "nats://host/path",
        "nats://[::1", "nats://::1", "nats://[host]", "nats://a,nats://b", "nats://a b",
        "nats://host\n", "NATS://host", "nats://[::1]4222"}) {
    const Result<NatsServer> server = ParseNatsServer(wrong);
    ASSERT_FALSE(server.ok()) << wrong;
    EXPECT_NE(server.status().message().find("nats://HOST[:PORT]"), std::string::npos);
  }
}

TEST(NatsSettings, AServerElsewhereNeedsCredentials) {
  NatsConfig config{.servers = {"nats://localhost", "tls://nats.example"}};
  const Result<NatsSettings> without = CheckNatsConfig(config);
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.status().message(),
            "events.nats has tls://nats.example:4222, which is not on this host, so "
            "events.nats_credentials must name a file with credentials");
  config.credentials_file = "/etc/harmonaize/nats.creds";
  ASSERT_TRUE(CheckNatsConfig(config).ok());
  EXPECT_EQ(CheckNatsConfig(config)->servers.size(), 2u);
  EXPECT_TRUE(CheckNatsConfig({.servers = {"nats://localhost"}}).ok());
  config.subject_prefix = "a.b";
  EXPECT_NE(CheckNatsConfig(config).status().message().find("events.nats_subject_prefix is 'a.b'"),
            std::string::npos);
  EXPECT_FALSE(CheckNatsConfig(
                   {.servers = std::vector<std::string>(kMostNatsServers + 1, "nats://localhost")})
                   .ok());
}

TEST(NatsSettings, AreReadFromTheConfiguration) {
  std::string path = (std::filesystem::temp_directory_path() / "nats-XXXXXX").string();
  const FileDescriptor file(mkstemp(path.data()));
  ASSERT_TRUE(file.valid());
  std::ofstream(path) << "[events]\nnats = [\"tls://a.example\", \"nats://localhost\"]\n"
                         "nats_credentials = \"/c\"\nnats_ca_file = \"/ca\"\n"
                         "nats_subject_prefix = \"prod\"\nnats_keep_bytes = 2097152\n"
                         "nats_keep_seconds = 60\n";
  const Result<Config> read = LoadConfig(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  // What --print-config prints says the same.
  std::ofstream(path) << ConfigTemplate(*read);
  const Result<Config> config = LoadConfig(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(config.ok()) << config.status().message();
  const Result<NatsSettings> settings = CheckNatsConfig(config->events.nats);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  ASSERT_EQ(settings->servers.size(), 2u);
  EXPECT_EQ(settings->servers[0].url(), "tls://a.example:4222");
  EXPECT_EQ(settings->credentials_file, "/c");
  EXPECT_EQ(settings->ca_file, "/ca");
  EXPECT_EQ(settings->prefix, "prod");
  EXPECT_EQ(settings->keep_bytes, 2 << 20);
  EXPECT_EQ(settings->keep_seconds, 60);
}

class NatsCredentialsTest : public ::testing::Test {
 protected:
  NatsCredentialsTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "nats-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~NatsCredentialsTest() override { std::filesystem::remove_all(folder_); }

  Result<NatsCredentials> Read(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_ + "/credentials";
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return ReadNatsCredentials(path);
  }

  std::string folder_;
};

TEST_F(NatsCredentialsTest, AreALineOrACredsFile) {
  const Result<NatsCredentials> line = Read("daemon:a:b c\n", 0640);
  ASSERT_TRUE(line.ok()) << line.status().message();
  EXPECT_FALSE(line->is_creds_file);
  EXPECT_EQ(line->user, "daemon");
  EXPECT_EQ(line->password, "a:b c");
  const Result<NatsCredentials> creds =
      Read("-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n");
  ASSERT_TRUE(creds.ok()) << creds.status().message();
  EXPECT_TRUE(creds->is_creds_file);
}

TEST_F(NatsCredentialsTest, WhatIsWrongIsNamedWithoutTheSecret) {
  for (const std::string& wrong :
       {std::string(), std::string("\n"), std::string("secret"), std::string(":secret"),
        std::string("secret:"), std::string("secret:a\nb:c\n"), std::string("a:secret\0b", 10),
        std::string("-----BEGIN NATS USER JWT-----\nsecret\xe4\n"), std::string(70'000, 's')}) {
    const Result<NatsCredentials> read = Read(wrong);
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.status().message().find(folder_), std::string::npos);
    EXPECT_EQ(read.status().message().find("secret"), std::string::npos);
  }
  EXPECT_NE(Read("daemon:word\n", 0644).status().message().find("chmod o="), std::string::npos);
  EXPECT_FALSE(ReadNatsCredentials(folder_).ok());
  EXPECT_FALSE(ReadNatsCredentials(folder_ + "/missing").ok());
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ReadNatsCredentials(folder_ + "/pipe").ok()) << "nobody waits for a pipe";
}

}  // namespace
}  // namespace harmonaize::daemon
