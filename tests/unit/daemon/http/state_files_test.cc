// What the HTTP server keeps in the state directory: tokens and the audit log.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "daemon/http/audit_log.h"
#include "daemon/http/token_store.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

namespace fs = std::filesystem;

class StateFilesTest : public ::testing::Test {
 protected:
  StateFilesTest() {
    std::string folder = (fs::temp_directory_path() / "http-state-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~StateFilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Text(const std::string& name) const {
    std::ifstream file(Path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  mode_t ModeOf(const std::string& name) const {
    struct stat found {};
    EXPECT_EQ(stat(Path(name).c_str(), &found), 0);
    return found.st_mode & 0777;
  }
  std::shared_ptr<TokenStore> Open() {
    return TokenStore::Open(folder_, [this] { return now_.load(); });
  }
  static TokenOrder Order(HttpScope scope, int64_t seconds) {
    TokenOrder order;
    order.scope = scope;
    order.seconds = seconds;
    order.note = "for a test";
    return order;
  }

  std::string folder_;
  std::atomic<int64_t> now_{1'700'000'000};
};

TEST_F(StateFilesTest, ATokenOutlivesTheDaemonAndItsSecretIsNowhere) {
  TokenOrder order = Order(HttpScope::kTenant, 100);
  order.tenant = {7, 8, 9, "team-a"};
  const Result<NewToken> made = Open()->Create(order);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->secret.size(), 46u);
  EXPECT_EQ(made->secret.rfind("hz_", 0), 0u);
  EXPECT_EQ(Text(kTokenFile).find(made->secret.substr(3)), std::string::npos);
  EXPECT_EQ(ModeOf(kTokenFile), 0600u);

  const auto found = Open()->Lookup(made->secret);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->id, made->token.id);
  EXPECT_EQ(found->scope, HttpScope::kTenant);
  EXPECT_EQ(found->tenant.number, 7u);
  EXPECT_EQ(found->tenant.across_hosts, 8u);
  EXPECT_EQ(found->tenant.user, 9u);
  EXPECT_EQ(found->tenant.name, "team-a");
  EXPECT_EQ(found->note, "for a test");
  EXPECT_EQ(found->expires, now_ + 100);
}

TEST_F(StateFilesTest, OnlyTheWholeSecretOpens) {
  const auto store = Open();
  const std::string secret = store->Create(Order(HttpScope::kOperator, 100))->secret;
  EXPECT_TRUE(store->Lookup(secret).has_value());
  for (const std::string& wrong : {std::string(), secret.substr(1), secret.substr(0, 45),
                                   secret + "a", std::string(100'000, 'a')}) {
    EXPECT_FALSE(store->Lookup(wrong).has_value());
  }
  // The digest that is stored is no secret that opens.
  const auto document = ReadJson(Text(kTokenFile));
  EXPECT_FALSE(store->Lookup(document["tokens"][0]["sha256"].get<std::string>()).has_value());
}

TEST_F(StateFilesTest, TokensExpireAndAreForgotten) {
  const auto store = Open();
  const NewToken made = std::move(store->Create(Order(HttpScope::kMetrics, 10))).value();
  now_ += 9;
  EXPECT_TRUE(store->Lookup(made.secret).has_value());
  now_ += 1;
  EXPECT_FALSE(store->Lookup(made.secret).has_value());
  EXPECT_TRUE(store->List().empty());
  ASSERT_TRUE(store->Create(Order(HttpScope::kMetrics, 10)).ok());
  EXPECT_EQ(Text(kTokenFile).find(made.token.id), std::string::npos);
}

TEST_F(StateFilesTest, ARevokedTokenEndsAndTheListenerHearsOfIt) {
  const auto store = Open();
  const NewToken first = std::move(store->Create(Order(HttpScope::kOperator, 100))).value();
  const NewToken second = std::move(store->Create(Order(HttpScope::kOperator, 100))).value();
  std::vector<std::string> ended;
  store->SetListener([&](const std::string& id) { ended.push_back(id); });
  EXPECT_TRUE(store->Revoke(first.token.id).ok());
  EXPECT_EQ(store->Revoke(first.token.id).code(), Code::kInvalidArgument);
  EXPECT_EQ(ended, std::vector<std::string>{first.token.id});
  EXPECT_FALSE(store->Lookup(first.secret).has_value());
  EXPECT_TRUE(store->Lookup(second.secret).has_value());
  EXPECT_FALSE(Open()->Lookup(first.secret).has_value()) << "nor after a restart";
  ASSERT_EQ(store->List().size(), 1u);
  EXPECT_EQ(store->List()[0].id, second.token.id);
}

TEST_F(StateFilesTest, ATokenHasABoundedLifeAndNote) {
  const auto store = Open();
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, kMostTokenSeconds + 1, INT64_MAX}) {
    EXPECT_EQ(store->Create(Order(HttpScope::kOperator, wrong)).status().code(),
              Code::kInvalidArgument);
  }
  TokenOrder order = Order(HttpScope::kOperator, 10);
  order.note = std::string(kMostNoteBytes + 1, 'a');
  EXPECT_FALSE(store->Create(order).ok());
  order.note = "two\nlines";
  EXPECT_FALSE(store->Create(order).ok());
  EXPECT_FALSE(store->Create(Order(HttpScope::kStranger, 10)).ok());
  EXPECT_FALSE(fs::exists(Path(kTokenFile)));
}

TEST_F(StateFilesTest, ADamagedFileOpensNothingAndIsSetAsideWhenATokenIsMade) {
  const std::string secret = Open()->Create(Order(HttpScope::kOperator, 100))->secret;
  const std::string whole = Text(kTokenFile);
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string("[]"), std::string(),
        std::string("{\"format\": 1, \"tokens\": [{}]}"),
        std::string("{\"format\": 2, \"tokens\": []}"), "[" + std::string(100'000, '[')}) {
    Write(kTokenFile, damaged);
    const auto store = Open();
    EXPECT_FALSE(store->Lookup(secret).has_value());
    EXPECT_EQ(Text(kTokenFile), damaged) << "the file is left as it is";
    const Result<NewToken> made = store->Create(Order(HttpScope::kOperator, 100));
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(Text(std::string(kTokenFile) + ".damaged"), damaged);
    EXPECT_TRUE(Open()->Lookup(made->secret).has_value());
    EXPECT_EQ(ModeOf(kTokenFile), 0600u);
  }
}

TEST_F(StateFilesTest, AFileThatOthersMayWriteOpensNothing) {
  const std::string secret = Open()->Create(Order(HttpScope::kOperator, 100))->secret;
  ASSERT_EQ(chmod(Path(kTokenFile).c_str(), 0620), 0);
  EXPECT_FALSE(Open()->Lookup(secret).has_value());
  ASSERT_EQ(chmod(Path(kTokenFile).c_str(), 0600), 0);
  EXPECT_TRUE(Open()->Lookup(secret).has_value());
  fs::rename(Path(kTokenFile), Path("elsewhere"));
  fs::create_symlink("elsewhere", Path(kTokenFile));
  EXPECT_FALSE(Open()->Lookup(secret).has_value());
}

TEST_F(StateFilesTest, ATokenThatCannotBeWrittenDoesNotExist) {
  const auto store = Open();
  fs::create_directories(Path(std::string(kTokenFile) + "/in-the-way"));
  EXPECT_EQ(store->Create(Order(HttpScope::kOperator, 100)).status().code(), Code::kSystemError);
  EXPECT_TRUE(store->List().empty());
}

TEST_F(StateFilesTest, AOneTimeTokenIsExchangedOnceAndSoon) {
  const auto store = Open();
  const std::string one_time = *store->CreateOneTime(HttpScope::kOperatorReadOnly, {}, "page");
  EXPECT_FALSE(store->Lookup(one_time).has_value()) << "it opens nothing itself";
  EXPECT_FALSE(store->Exchange("hzo_wrong").has_value());
  const std::optional<NewToken> session = store->Exchange(one_time);
  ASSERT_TRUE(session.has_value());
  EXPECT_FALSE(store->Exchange(one_time).has_value());
  EXPECT_EQ(store->Lookup(session->secret)->scope, HttpScope::kOperatorReadOnly);
  EXPECT_EQ(session->token.expires, now_ + kSessionSeconds);
  EXPECT_FALSE(store->Exchange(session->secret).has_value());

  const std::string late = *store->CreateOneTime(HttpScope::kOperatorReadOnly, {}, "page");
  now_ += kOneTimeSeconds;
  EXPECT_FALSE(store->Exchange(late).has_value());
  EXPECT_TRUE(store->Revoke(session->token.id).ok());
  EXPECT_FALSE(store->Lookup(session->secret).has_value());
}

TEST_F(StateFilesTest, FewOneTimeTokensWaitAtATime) {
  const auto store = Open();
  int made = 0;
  while (made < 1000 && store->CreateOneTime(HttpScope::kOperator, {}, "").ok()) ++made;
  EXPECT_EQ(made, 64);
  now_ += kOneTimeSeconds;
  EXPECT_TRUE(store->CreateOneTime(HttpScope::kOperator, {}, "").ok());
}

TEST_F(StateFilesTest, ThreadsMayUseTheTokensAtOnce) {
  const auto store = Open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        const NewToken made = std::move(store->Create(Order(HttpScope::kOperator, 100))).value();
        EXPECT_TRUE(store->Lookup(made.secret).has_value());
        EXPECT_GE(store->List().size(), 1u);
        EXPECT_TRUE(store->Revoke(made.token.id).ok());
        EXPECT_FALSE(store->Lookup(made.secret).has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(store->List().empty());
  EXPECT_TRUE(Open()->List().empty());
}

TEST_F(StateFilesTest, TheNumberOfTokensIsBounded) {
  const auto store = TokenStore::Open("", [this] { return now_.load(); });
  for (size_t i = 0; i < kMostTokens; ++i) {
    ASSERT_TRUE(store->Create(Order(HttpScope::kMetrics, 100)).ok());
  }
  EXPECT_EQ(store->Create(Order(HttpScope::kMetrics, 100)).status().code(), Code::kInvalidUsage);
  now_ += 100;
  EXPECT_TRUE(store->Create(Order(HttpScope::kMetrics, 100)).ok()) << "the expired ones count not";
}

// ---------------------------------------------------------------------------------------------
// The audit log

std::vector<nlohmann::json> LinesOf(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(ReadJson(line));
  return lines;
}

TEST_F(StateFilesTest, TheAuditLogHasALineForEachEntry) {
  {
    const auto log = std::move(AuditLog::Start(folder_, {})).value();
    log->Add({1'700'000'000.25, "uid 0", "POST", "/v1/hosts/a/drain", 204});
    log->Add({1'700'000'000.5, "uid 0", "POST", "/a", 200, {"m1", "started"}});
    log->Add({1'700'000'001, "token \xff\n3f9a", "PUT", "/v1/policy", 403});
  }
  EXPECT_EQ(ModeOf(kAuditFile), 0600u);
  const std::vector<nlohmann::json> lines = LinesOf(Text(kAuditFile));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["id"], "m1");
  EXPECT_EQ(lines[1]["state"], "started");
  EXPECT_EQ(lines[0], nlohmann::json({{"time", "2023-11-14T22:13:20.250Z"},
                                      {"who", "uid 0"},
                                      {"method", "POST"},
                                      {"path", "/v1/hosts/a/drain"},
                                      {"status", 204}}));
  EXPECT_EQ(lines[2]["who"], "token \uFFFD\n3f9a");
}

TEST_F(StateFilesTest, TheAuditLogIsGoneOnWithAndSetAsideWhenItIsLong) {
  AuditLimits limits;
  limits.file_bytes = 500;
  limits.kept_files = 2;
  for (int i = 0; i < 40; ++i) {
    const auto log = std::move(AuditLog::Start(folder_, limits)).value();
    log->Add({static_cast<double>(i), "uid 0", "POST", "/" + std::to_string(i), 200});
    log->Flush();
  }
  std::vector<nlohmann::json> lines;
  for (const char* const name : {"audit.log.2", "audit.log.1", "audit.log"}) {
    EXPECT_LT(Text(name).size(), 700u);
    for (nlohmann::json& line : LinesOf(Text(name))) lines.push_back(std::move(line));
  }
  EXPECT_FALSE(fs::exists(Path("audit.log.3")));
  ASSERT_GT(lines.size(), 8u);
  ASSERT_LT(lines.size(), 40u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["path"], "/" + std::to_string(40 - lines.size() + i));
  }
}

TEST_F(StateFilesTest, EntriesThatFindNoPlaceInTheAuditLogAreCounted) {
  AuditLimits limits;
  limits.waiting = 5;
  constexpr int kEntries = 20'000;
  {
    const auto log = std::move(AuditLog::Start(folder_, limits)).value();
    for (int i = 0; i < kEntries; ++i) log->Add({0, "uid 0", "POST", "/a", 200});
    log->Flush();
    log->Add({0, "uid 0", "POST", "/last", 200});
  }
  int64_t written = 0;
  int64_t missing = 0;
  for (const nlohmann::json& line : LinesOf(Text(kAuditFile))) {
    written += line.contains("who") ? 1 : 0;
    missing += line.value("missing", 0);
  }
  EXPECT_EQ(written + missing, kEntries + 1);
}

TEST_F(StateFilesTest, RefusalsHaveOneLineForMany) {
  AuditLimits limits;
  limits.refusals_every = std::chrono::hours(1);
  constexpr int kRefusals = 1000;
  {
    const auto log = std::move(AuditLog::Start(folder_, limits)).value();
    for (int i = 0; i < kRefusals; ++i) {
      log->CountRefusal("token a");
      if (i % 100 == 0) log->Add({0, "uid 0", "POST", "/a", 200});
    }
    log->Flush();
  }
  int lines = 0;
  int refused = 0;
  int entries = 0;
  for (const nlohmann::json& line : LinesOf(Text(kAuditFile))) {
    lines += line.contains("refused") ? 1 : 0;
    refused += line.value("refused", 0);
    entries += line.contains("path") ? 1 : 0;
  }
  EXPECT_LE(lines, 2) << "the first one, and the one at the end";
  EXPECT_EQ(refused, kRefusals);
  EXPECT_EQ(entries, 10);
}

TEST_F(StateFilesTest, TheNextLineOfRefusalsComesByItself) {
  AuditLimits limits;
  limits.refusals_every = std::chrono::milliseconds(20);
  const auto log = std::move(AuditLog::Start(folder_, limits)).value();
  const auto refused = [this] {
    const std::string text = Text(kAuditFile);
    int sum = 0;
    for (const nlohmann::json& line : LinesOf(text.substr(0, text.rfind('\n') + 1)))
      sum += line.value("refused", 0);
    return sum;
  };
  const auto comes_to = [&](int sum) {
    for (int i = 0; i < 1000 && refused() < sum; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return refused();
  };
  log->CountRefusal("token a");
  EXPECT_EQ(comes_to(1), 1);
  log->CountRefusal("token a");
  log->CountRefusal("token a");
  EXPECT_EQ(comes_to(3), 3);
}

TEST_F(StateFilesTest, TheAuditLogFollowsNoLink) {
  fs::create_symlink("elsewhere", Path(kAuditFile));
  const auto log = AuditLog::Start(folder_, {});
  EXPECT_FALSE(log.ok());
  EXPECT_NE(log.status().message().find(kAuditFile), std::string::npos);
}

}  // namespace
}  // namespace harmonaize::daemon
