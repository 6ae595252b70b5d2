// The thread that publishes, with a link whose failures the test makes.

#include "daemon/nats/event_forwarder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/unit/daemon/nats/captured_log.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

/// What the test and the link share.
struct Script {
  std::mutex mutex;
  bool away = false;              // guarded by mutex; no server can be reached
  int failures = 0;               // guarded by mutex; so many messages fail next
  bool keeps_failed = false;      // guarded by mutex; a message that fails is kept all the same
  std::string refused;            // guarded by mutex; the id of a message that cannot be sent
  int connections = 0;            // guarded by mutex
  std::vector<NatsMessage> kept;  // guarded by mutex

  void SetAway(bool is_away) {
    const std::lock_guard lock(mutex);
    away = is_away;
  }
  std::vector<std::string> KeptIds() {
    const std::lock_guard lock(mutex);
    std::vector<std::string> ids;
    for (const NatsMessage& message : kept) ids.push_back(message.id);
    return ids;
  }
};

class ScriptedLink final : public NatsLink {
 public:
  explicit ScriptedLink(Script* script) : script_(script) {}

  Status Connect() override {
    EXPECT_FALSE(connected_);
    const std::lock_guard lock(script_->mutex);
    if (script_->away) return Unavailable("nobody is there");
    ++script_->connections;
    connected_ = true;
    return Status::Ok();
  }
  bool connected() const override { return connected_; }
  std::string server() const override { return "the test"; }
  Status Send(const NatsMessage& message) override {
    EXPECT_TRUE(connected_);
    const std::lock_guard lock(script_->mutex);
    if (message.id == script_->refused) return InvalidArgument("it is not wanted");
    const bool fails = script_->away || script_->failures > 0;
    if (fails) {
      connected_ = false;
      if (script_->failures > 0) --script_->failures;
    }
    if (!fails || script_->keeps_failed) script_->kept.push_back(message);
    return fails ? Unavailable("it went away") : Status::Ok();
  }

 private:
  Script* const script_;
  bool connected_ = false;
};

class EventForwarderTest : public ::testing::Test {
 protected:
  EventForwarderTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~EventForwarderTest() override {
    forwarder_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start(EventOutbox::Limits limits = {}) {
    forwarder_ = std::make_unique<EventForwarder>(
        std::make_unique<ScriptedLink>(&script_),
        EventForwarder::Options{
            .limits = limits, .folder = folder_, .first_pause_ms = 1, .longest_pause_ms = 5});
  }
  static Event EventOf(uint64_t unique) {
    return {.job = "job", .unique = unique, .type = EventType::kRankLate, .data = R"({"a":1})"};
  }
  void Publish(const TenantIdentity& tenant, uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i) forwarder_->Publish(tenant, EventOf(i));
  }
  static std::vector<std::string> Ids(uint64_t first, uint64_t last) {
    std::vector<std::string> ids;
    for (uint64_t i = first; i <= last; ++i) ids.push_back(EventOf(i).id());
    return ids;
  }
  /// Waits until nothing waits; returns false after half a minute.
  bool AllSent() {
    for (int i = 0; i < 30'000 && forwarder_->counts().waiting > 0; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return forwarder_->counts().waiting == 0;
  }

  std::string LeftFile() const { return folder_ + "/nats-outbox"; }

  std::string folder_ = "/tmp/harmonaize-test-XXXXXX";
  const TenantIdentity alice_{.number = 1, .across_hosts = 1, .user = 1, .name = "uid 1"};
  const TenantIdentity bob_{.number = 2, .across_hosts = 2, .user = 2, .name = "a.>"};
  CapturedLog log_;
  Script script_;
  std::unique_ptr<EventForwarder> forwarder_;
};

TEST_F(EventForwarderTest, SendsWhatSubscribersAreToHear) {
  Start();
  forwarder_->Publish(bob_, EventOf(7));
  forwarder_->PublishToOperators({.unique = 8, .type = EventType::kHostFailing});
  ASSERT_TRUE(AllSent());
  forwarder_.reset();
  ASSERT_EQ(script_.kept.size(), 2u);
  EXPECT_EQ(script_.kept[0].subject, "harmonaize.events.a_2e_3e.job.rank.late");
  EXPECT_EQ(script_.kept[0].id, "job.0000000000000007");
  const nlohmann::json event = ReadJson(script_.kept[0].content);
  EXPECT_EQ(event.at("id"), "job.0000000000000007");
  EXPECT_EQ(event.at("source"), "/harmonaize/jobs/job");
  EXPECT_EQ(event.at("data").at("a"), 1);
  EXPECT_FALSE(event.contains("sequence")) << "each host has numbers of its own";
  EXPECT_FALSE(event.contains("tenant"));
  EXPECT_EQ(script_.kept[1].subject, "harmonaize.events._operators.host.host.failing");
}

TEST_F(EventForwarderTest, ASubjectThatLooksLikeTheNumberStays) {
  Event event = EventOf(7);
  event.subject = R"(","sequence":"00000000000000000000",")";
  event.data = R"({"text":"\"sequence\":\"00000000000000000000\","})";
  const nlohmann::json published = ReadJson(PublishedText(event));
  EXPECT_EQ(published.at("subject"), event.subject);
  EXPECT_EQ(published.at("data").at("text"), R"("sequence":"00000000000000000000",)");
  EXPECT_FALSE(published.contains("sequence"));
}

TEST_F(EventForwarderTest, WhatFailsIsSentAgainInOrder) {
  script_.failures = 5;
  Start();
  Publish(alice_, 1, 100);
  ASSERT_TRUE(AllSent());
  EXPECT_EQ(script_.KeptIds(), Ids(1, 100));
  EXPECT_EQ(forwarder_->counts().sent, 100u);
  EXPECT_EQ(forwarder_->counts().given_up, 0u);
}

// The stream's memory of ids makes one message of the two.
TEST_F(EventForwarderTest, WhatMayHaveBeenTakenIsSentAgainWithTheSameId) {
  script_.failures = 1;
  script_.keeps_failed = true;
  Start();
  Publish(alice_, 1, 3);
  ASSERT_TRUE(AllSent());
  std::vector<std::string> expected = Ids(1, 3);
  expected.insert(expected.begin(), expected.front());
  EXPECT_EQ(script_.KeptIds(), expected);
}

TEST_F(EventForwarderTest, WaitsForAServerAndSaysWhenItIsBack) {
  script_.SetAway(true);
  Start({.events_of_tenant = 10});
  Publish(alice_, 1, 25);
  forwarder_->Publish(bob_, EventOf(26));
  EXPECT_EQ(forwarder_->counts().waiting, 11u);
  EXPECT_EQ(forwarder_->counts().given_up, 15u);
  for (int i = 0; i < 10'000 && log_.With("nobody is there").empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  script_.SetAway(false);
  ASSERT_TRUE(AllSent());
  forwarder_.reset();
  std::vector<std::string> kept = script_.KeptIds();
  std::erase(kept, EventOf(26).id());
  EXPECT_EQ(kept, Ids(16, 25));
  EXPECT_EQ(log_.With("events are not published to NATS now").size(), 1u) << log_.text();
  EXPECT_EQ(log_.With("published to NATS again, at the test").size(), 1u) << log_.text();
  EXPECT_EQ(log_.With("15 events were not published to NATS").size(), 1u) << log_.text();
}

TEST_F(EventForwarderTest, AnEventThatNobodyTakesDoesNotHoldTheOthersUp) {
  script_.refused = EventOf(2).id();
  Start();
  Publish(alice_, 1, 4);
  ASSERT_TRUE(AllSent());
  EXPECT_EQ(script_.KeptIds(),
            (std::vector<std::string>{EventOf(1).id(), EventOf(3).id(), EventOf(4).id()}));
  EXPECT_EQ(forwarder_->counts().given_up, 1u);
  EXPECT_EQ(log_.With("job.0000000000000002 is not published to NATS: it is not wanted").size(), 1u)
      << log_.text();
}

TEST_F(EventForwarderTest, ATenantThatFloodsDoesNotKeepAnotherWaiting) {
  script_.SetAway(true);
  Start({.events_of_tenant = 1000});
  Publish(alice_, 1, 5000);
  Publish(bob_, 10'001, 10'003);
  script_.SetAway(false);
  ASSERT_TRUE(AllSent());
  const std::vector<std::string> kept = script_.KeptIds();
  ASSERT_EQ(kept.size(), 1003u);
  for (uint64_t i = 10'001; i <= 10'003; ++i) {
    const auto place = std::find(kept.begin(), kept.end(), EventOf(i).id()) - kept.begin();
    EXPECT_LT(place, 7) << "turns, from the first or the second on";
  }
}

TEST_F(EventForwarderTest, LeavesToTheNextWhatNoServerTakes) {
  script_.SetAway(true);
  Start();
  Publish(alice_, 1, 3);
  forwarder_->PublishToOperators({.unique = 9, .type = EventType::kHostFailing});
  forwarder_.reset();
  EXPECT_TRUE(script_.kept.empty());
  struct stat left {};
  ASSERT_EQ(stat(LeftFile().c_str(), &left), 0);
  EXPECT_EQ(left.st_mode & 0777, 0600u) << "it holds what tenants are told";
  // A second one gets no further, and a third one has news of its own.
  Start();
  forwarder_.reset();
  script_.SetAway(false);
  Start();
  Publish(alice_, 4, 4);
  ASSERT_TRUE(AllSent());
  std::vector<std::string> ids = script_.KeptIds();
  EXPECT_EQ(std::erase(ids, Event{.unique = 9}.id()), 1u);
  EXPECT_EQ(ids, Ids(1, 4));
  for (int i = 0; i < 30'000 && stat(LeftFile().c_str(), &left) == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_NE(stat(LeftFile().c_str(), &left), 0) << "what was sent is not left";
}

TEST_F(EventForwarderTest, WhatWasLeftAndIsDamagedIsNotBelieved) {
  std::ofstream(LeftFile()) << R"({"tenant":1,"subject":"s","id":"i","content":"{}"})"
                               "\n{\"ten";
  chmod(LeftFile().c_str(), 0600);
  Start();
  Publish(alice_, 1, 1);
  ASSERT_TRUE(AllSent());
  EXPECT_EQ(script_.KeptIds(), Ids(1, 1));
  EXPECT_NE(log_.text().find("is damaged after 1 events"), std::string::npos) << log_.text();
}

TEST_F(EventForwarderTest, SendsWhatWaitsBeforeItEnds) {
  Start();
  Publish(alice_, 1, 50);
  for (int i = 0; i < 30'000 && forwarder_->counts().sent == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  Publish(alice_, 51, 100);
  forwarder_.reset();
  EXPECT_EQ(script_.KeptIds(), Ids(1, 100));
}

TEST_F(EventForwarderTest, TakesEventsFromAllThreads) {
  Start();
  std::vector<std::thread> threads;
  for (uint32_t number = 10; number < 14; ++number) {
    threads.emplace_back([this, number] {
      const TenantIdentity tenant{.number = number, .name = "t" + std::to_string(number)};
      Publish(tenant, number * 1000, number * 1000 + 499);
    });
  }
  {
    const std::lock_guard lock(script_.mutex);
    script_.failures = 20;
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(AllSent());
  std::vector<std::string> kept = script_.KeptIds();
  ASSERT_EQ(kept.size(), 2000u);
  std::vector<uint64_t> next(14, 0);
  for (const std::string& id : kept) {
    const uint64_t unique = ParseEventId(id)->unique;
    EXPECT_EQ(unique % 1000, next[unique / 1000]++) << "each tenant's order";
  }
}

}  // namespace
}  // namespace harmonaize::daemon
