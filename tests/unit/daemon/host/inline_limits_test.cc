#include "daemon/host/inline_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "src/requirements/terms.h"

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

CommunicatorTerms TermsSaying(const std::string& text, std::string_view communicator) {
  const Result<Requirements> read = ParseRequirements(text, "job.toml");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return {std::make_shared<const JobTerms>(*read), communicator};
}

TEST(LimitInline, LetsNothingGoInlineWhereTheJobWantsNothingTo) {
  InlineLimits limits = InlineLimitsFor(InlineConfig{}, SomeChoice(), 4);
  LimitInline(TermsSaying("", "tp"), 4, &limits);
  EXPECT_FALSE(limits.none);
  LimitInline(TermsSaying("collectives.inline = false", "tp"), 4, &limits);
  EXPECT_TRUE(limits.none);
}

TEST(LimitInline, EndsBelowTheLeastSizeThatIsNotToGoInline) {
  const InlineConfig config{.registered_bytes = 100'000, .heap_bytes = 100'000};
  const std::string text = R"(
[[collectives.override]]
communicator = "tp"
sizes = ["4 KiB", "8 KiB"]
inline = false
)";
  InlineLimits limits = InlineLimitsFor(config, SomeChoice(), 4);
  LimitInline(TermsSaying(text, "dp"), 4, &limits);
  EXPECT_EQ(limits.heap[static_cast<size_t>(Collective::kAllReduce)], 100'000u);
  LimitInline(TermsSaying(text, "tp"), 4, &limits);
  EXPECT_FALSE(limits.none);
  EXPECT_EQ(limits.heap[static_cast<size_t>(Collective::kAllReduce)], 4095u);
  // Four ranks' blocks make an all-gather's size.
  EXPECT_EQ(limits.registered[static_cast<size_t>(Collective::kAllGather)], 1023u);
}

}  // namespace
}  // namespace harmonaize::daemon
