// What the rooms below count for metrics.

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "daemon/communicator/inline_segment.h"
#include "daemon/events/event_bus.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/log_queue.h"
#include "daemon/tenant/tenant_table.h"
#include "src/ipc/inline_slot.h"

namespace harmonaize::daemon {
namespace {

TEST(CountersOfLog, CountLinesThatAreWrittenAndLinesThatAreLeftOut) {
  LogCounters& counters = CountersOfLog();
  const uint64_t warnings = counters.lines[static_cast<size_t>(LogLevel::kWarning)];
  const uint64_t left_out = counters.tenants_left_out;
  LogQueue queue({.tenant_burst = 2, .tenant_lines_per_second = 1});
  const TenantIdentity tenant{1000, 1000, 1000, "uid 1000"};
  for (int i = 0; i < 5; ++i) queue.Add(LogLevel::kWarning, "a line", &tenant, 1);
  EXPECT_EQ(counters.lines[static_cast<size_t>(LogLevel::kWarning)], warnings + 2);
  EXPECT_EQ(counters.tenants_left_out, left_out + 3);
}

TEST(InlineSegment, WhatRanksClaimedStaysWhenTheyHaveLeft) {
  Result<std::unique_ptr<InlineSegment>> made =
      InlineSegment::Create(2, InlineLimits{}, Machine{.last_level_bytes = 1 << 20});
  ASSERT_TRUE(made.ok()) << made.status().message();
  InlineSegment& segment = **made;
  std::array<InlineSlot, 2> slots{};
  for (int rank = 0; rank < 2; ++rank) segment.Attach(rank, &slots[static_cast<size_t>(rank)]);
  slots[0].operations.store(5);
  slots[1].operations.store(7);
  slots[0].bytes.store(100);
  slots[1].bytes.store(UINT64_MAX - 50);
  EXPECT_EQ(segment.claimed_operations(), 7u);
  // What ranks claim does not wrap around.
  EXPECT_EQ(segment.claimed_bytes(), UINT64_MAX);
  segment.Detach(1);
  EXPECT_EQ(segment.operations(), 5u);
  EXPECT_EQ(segment.claimed_operations(), 7u);
  EXPECT_EQ(segment.claimed_bytes(), UINT64_MAX);
  segment.Detach(0);
  segment.Detach(0);
  EXPECT_EQ(segment.claimed_operations(), 7u);
}

TEST(TenantTable, FindsTheTenantThatWorkWasDoneFor) {
  TenantTable tenants(std::make_shared<Accounts>(ResourceLimits{}), {});
  Tenant* const user = tenants.Of({1000, 1000, 1000, "uid 1000"});
  Tenant* const container = tenants.Of({77, 1001, 1001, "uid 1001 in /a"});
  Tenant* const another = tenants.Of({78, 1001, 1001, "uid 1001 in /b"});
  EXPECT_EQ(tenants.OfWork(1000), user);
  EXPECT_EQ(tenants.OfWork(77), container);
  EXPECT_EQ(tenants.OfWork(78), another);
  EXPECT_EQ(tenants.OfWork(1001), container);
  EXPECT_EQ(tenants.OfWork(5), nullptr);
  // The number of this host goes before that across hosts.
  Tenant* const itself = tenants.Of({1001, 1001, 1001, "uid 1001"});
  EXPECT_EQ(tenants.OfWork(1001), itself);
}

TEST(EventBusCounters, CountEventsByTheirTypeAndRepeatedOnes) {
  Result<std::unique_ptr<EventBus>> bus =
      EventBus::Create({.now_seconds = [] { return int64_t{1}; }});
  ASSERT_TRUE(bus.ok());
  const TenantIdentity tenant{1000, 1000, 1000, "uid 1000"};
  Event event{.job = "job", .unique = 7, .type = EventType::kRankLost, .time_ns = 1};
  (*bus)->Publish(tenant, event);
  (*bus)->Publish(tenant, event);
  event.job.clear();
  event.type = EventType::kHostFailing;
  (*bus)->PublishToOperators(event);
  EventBus::Counters counters = (*bus)->counters();
  const auto published = [&](EventType type) {
    return counters.published[static_cast<size_t>(type)];
  };
  for (int i = 0; i < 20'000 && published(EventType::kHostFailing) + counters.repeated < 2; ++i) {
    usleep(1000);
    counters = (*bus)->counters();
  }
  EXPECT_EQ(published(EventType::kRankLost), 1u);
  EXPECT_EQ(published(EventType::kHostFailing), 1u);
  EXPECT_EQ(counters.repeated, 1u);
  EXPECT_EQ(counters.waiting, 0u);
  EXPECT_EQ(counters.dropped, 0u);
}

}  // namespace
}  // namespace harmonaize::daemon
