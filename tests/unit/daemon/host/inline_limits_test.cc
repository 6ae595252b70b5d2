#include "daemon/host/inline_limits.h"

#include <gtest/gtest.h>

#include "daemon/communicator/inline_segment.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {
namespace {

InlineChoice SomeChoice() {
  HostCosts costs;
  for (const HostCostField& field : kHostCostFields) {
    costs.*field.value = field.name.ends_with("_ns") ? 1000 : 1e10;
  }
  costs.round_trip_ns = 50'000;
  return {costs, {.processors = 4, .workers = 4}};
}

TEST(InlineLimits, AreTheChoicesForEachCollective) {
  const InlineChoice choice = SomeChoice();
  const InlineLimits limits = InlineLimitsFor(InlineConfig{}, choice, 4);
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_EQ(limits.registered[i], choice.Limit(collective, 4, true));
    EXPECT_EQ(limits.heap[i], choice.Limit(collective, 4, false));
  }
  EXPECT_EQ(limits.stream, uint64_t{256} << 10);
}

TEST(InlineLimits, AreTheConfigurationsWhereItSays) {
  const InlineConfig config{.registered_bytes = 1000, .heap_bytes = 0, .stream_bytes = 7};
  const InlineLimits limits = InlineLimitsFor(config, SomeChoice(), 4);
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    EXPECT_EQ(limits.registered[i], 1000u);
    EXPECT_EQ(limits.heap[i], 0u);
  }
  EXPECT_EQ(limits.stream, 7u);
}

TEST(InlineSegment, SteersEachCollectiveAndKindOfMemory) {
  InlineLimits limits;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    limits.registered[i] = 100 + i;
    limits.heap[i] = 200 + i;
  }
  limits.stream = 300;
  const auto segment = InlineSegment::Create(3, limits, Machine{});
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  const Result<Mapping> seen = MapForeign((*segment)->descriptor(), (*segment)->bytes());
  ASSERT_TRUE(seen.ok()) << seen.status().message();
  const InlineSteering& steering = reinterpret_cast<const InlineHeader*>(seen->data())->steering;
  const auto expect = [&](uint64_t more) {
    for (size_t i = 0; i < kCollectiveCount; ++i) {
      for (size_t type = 0; type < kDataTypeCount; ++type) {
        EXPECT_EQ(steering.registered[i][type].load(), 100 + i + more);
        EXPECT_EQ(steering.heap[i][type].load(), 200 + i + more);
      }
    }
    EXPECT_EQ(steering.stream.load(), 300 + more);
  };
  expect(0);
  for (uint64_t& limit : limits.registered) ++limit;
  for (uint64_t& limit : limits.heap) ++limit;
  ++limits.stream;
  (*segment)->Steer(limits);
  expect(1);
}

}  // namespace
}  // namespace harmonaize::daemon
