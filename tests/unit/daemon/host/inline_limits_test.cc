#include "daemon/host/inline_limits.h"

#include <gtest/gtest.h>

#include <limits>

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
}

TEST(InlineLimits, StreamsAreTheDaemonsWhereProcessorsAreLeftOver) {
  const InlineChoice choice = SomeChoice();
  EXPECT_EQ(InlineLimitsFor(InlineConfig{}, choice, choice.shape().processors - 1).stream,
            kOverlappedBytes);
  EXPECT_EQ(InlineLimitsFor(InlineConfig{}, choice, choice.shape().processors).stream,
            std::numeric_limits<uint64_t>::max());
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

}  // namespace
}  // namespace harmonaize::daemon
