#include "daemon/events/event_bus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitized.h"

namespace harmonaize::daemon {
namespace {

constexpr std::chrono::seconds kPatience(20);

TenantIdentity Tenant(uint32_t number) {
  return {.number = number,
          .across_hosts = number,
          .user = number,
          .name = "uid " + std::to_string(number)};
}

Event Numbered(uint64_t number) {
  return {.job = "a", .unique = number, .type = EventType::kRankLate, .time_ns = 1};
}

/// A subscriber that notes the ids of what it is sent. Thread: any.
class Listener {
 public:
  EventBus::Subscribing calls() {
    return {.open = [this]() -> EventSink {
              return [this](std::string text) {
                const std::lock_guard lock(mutex_);
                ids_.push_back(text.substr(4, text.find('@') - 4));
                return true;
              };
            },
            .refuse = [this](const Status&) { refused_ = true; }};
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return ids_.size();
  }
  bool AwaitCount(size_t count) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (this->count() < count && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return this->count() == count;
  }
  std::vector<std::string> ids() const {
    const std::lock_guard lock(mutex_);
    return ids_;
  }
  bool refused() const { return refused_; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> ids_;
  std::atomic<bool> refused_{false};
};

class EventBusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/harmonaize-bus-XXXXXX";
    folder_ = mkdtemp(path);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<EventBus> Open(const std::string& folder) {
    Result<std::unique_ptr<EventBus>> bus =
        EventBus::Create({.folder = folder, .retention = {}, .now_seconds = [] { return 1000; }});
    EXPECT_TRUE(bus.ok()) << bus.status().message();
    return bus.ok() ? std::move(*bus) : nullptr;
  }
  static void Hear(EventBus& bus, const EventReader& reader, Listener* listener,
                   EventOrder order = {.from_the_start = true}) {
    bus.Subscribe(reader, bus.NextSubscription(), std::move(order), listener->calls());
  }

  std::string folder_;
};

TEST_F(EventBusTest, TenantsHearTheirOwnAndOperatorsAll) {
  const auto bus = Open(folder_ + "/events");
  Listener first;
  Listener second;
  Listener operators;
  Hear(*bus, {Tenant(1)}, &first);
  Hear(*bus, {Tenant(2)}, &second);
  Hear(*bus, {.tenant = Tenant(0), .is_operator = true}, &operators);
  for (uint64_t i = 1; i <= 10; ++i) bus->Publish(Tenant(1), Numbered(i));
  bus->Publish(Tenant(2), Numbered(99));
  bus->PublishToOperators(Numbered(100));
  EXPECT_TRUE(operators.AwaitCount(12));
  EXPECT_TRUE(first.AwaitCount(10));
  EXPECT_TRUE(second.AwaitCount(1));
  struct stat found {};
  ASSERT_EQ(stat((folder_ + "/events").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST_F(EventBusTest, ATenantFillsItsShareOfTheOperatorsLogAlone) {
  constexpr uint64_t kMany = 3000;
  const auto bus = Open(folder_ + "/events");
  bus->PublishToOperators(Numbered(1));
  Event large = Numbered(0);
  large.data = "{\"text\":\"" + std::string(1000, 'x') + "\"}";
  for (uint64_t i = 0; i < kMany; ++i) {
    large.unique = 100 + i;
    bus->Publish(Tenant(1), large);
    if (i % 1000 == 999) bus->Flush(std::chrono::seconds(20));
  }
  bus->Publish(Tenant(2), Numbered(2));
  bus->PublishToOperators(Numbered(3));
  bus->Flush(std::chrono::seconds(20));
  const EventBus::Counters counters = bus->counters();
  EXPECT_EQ(counters.dropped, 0u);
  EXPECT_GT(counters.unshared, kMany / 2);
  // All that fits is there: the share of one, and what others did before and after.
  Listener operators;
  Hear(*bus, {.tenant = Tenant(0), .is_operator = true}, &operators);
  EXPECT_TRUE(operators.AwaitCount(kMany - counters.unshared + 3));
}

TEST_F(EventBusTest, WhatWasToldIsThereAfterARestart) {
  {
    const auto bus = Open(folder_ + "/events");
    for (uint64_t i = 1; i <= 5; ++i) bus->Publish(Tenant(1), Numbered(i));
    bus->Flush(std::chrono::seconds(10));
  }
  const auto bus = Open(folder_ + "/events");
  bus->Publish(Tenant(1), Numbered(3));  // comes again, from another host
  bus->Publish(Tenant(1), Numbered(6));
  Listener listener;
  Hear(*bus, {Tenant(1)}, &listener);
  EXPECT_TRUE(listener.AwaitCount(6));
}

TEST_F(EventBusTest, KeepsEventsInMemoryWhereItHasNoFolder) {
  const auto bus = Open("");
  bus->Publish(Tenant(1), Numbered(1));
  Listener listener;
  Hear(*bus, {Tenant(1)}, &listener);
  EXPECT_TRUE(listener.AwaitCount(1));
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_FALSE(
      EventBus::Create({.folder = folder_ + "/file", .now_seconds = [] { return 1; }}).ok());
}

TEST_F(EventBusTest, LogsThatNobodyUsesAreClosed) {
  const auto bus = Open(folder_ + "/events");
  const auto open_logs = [] {
    int logs = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry, error).string();
      logs += target.ends_with(".sqlite3") ? 1 : 0;
    }
    return logs;
  };
  Listener listener;
  Hear(*bus, {Tenant(1)}, &listener);
  bus->Publish(Tenant(2), Numbered(1));
  bus->Flush(std::chrono::seconds(10));
  EXPECT_GE(open_logs(), 2);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (open_logs() > 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(open_logs(), 1) << "that of the subscriber";
  bus->Publish(Tenant(1), Numbered(2));
  bus->Publish(Tenant(2), Numbered(2));
  EXPECT_TRUE(listener.AwaitCount(1));
}

// Threads publish, subscribe, resume and unsubscribe at random. Whoever stays hears every event
// once, and each tenant's in one order.
TEST_F(EventBusTest, ManyThreadsAtOnce) {
  constexpr uint32_t kTenants = 3;
  const uint64_t events = kSanitized ? 60 : 300;
  const auto bus = Open(folder_ + "/events");
  std::vector<std::unique_ptr<Listener>> staying;
  for (uint32_t tenant = 0; tenant < kTenants; ++tenant) {
    for (int i = 0; i < 3; ++i) {
      staying.push_back(std::make_unique<Listener>());
      Hear(*bus, {Tenant(tenant)}, staying.back().get());
    }
  }
  std::vector<std::thread> threads;
  for (uint32_t tenant = 0; tenant < kTenants; ++tenant) {
    threads.emplace_back([&, tenant] {
      for (uint64_t i = 1; i <= events; ++i) bus->Publish(Tenant(tenant), Numbered(i));
    });
    threads.emplace_back([&, tenant] {
      Listener passing;
      for (int i = 0; i < 40; ++i) {
        const uint64_t number = bus->NextSubscription();
        bus->Subscribe({Tenant(tenant)}, number, {.from_the_start = true}, passing.calls());
        bus->Resume({Tenant(tenant)}, number);
        bus->Unsubscribe({Tenant(tenant)}, number);
      }
      // Its sinks must not be called once it has gone.
      std::atomic<bool> done{false};
      bus->Read({Tenant(tenant)}, {}, 1, [&](const auto&) { done = true; });
      while (!done) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < staying.size(); ++i) {
    ASSERT_TRUE(staying[i]->AwaitCount(events)) << i << ": " << staying[i]->count();
    EXPECT_EQ(staying[i]->ids(), staying[i / 3 * 3]->ids());
  }
}

}  // namespace
}  // namespace harmonaize::daemon
