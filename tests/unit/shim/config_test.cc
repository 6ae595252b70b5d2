#include "shim/config.h"

#include <gtest/gtest.h>
#include <stddef.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/log.h"

namespace harmonaize::shim {
namespace {

ncclConfig_t Initial() {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}

Status Parse(const ncclConfig_t& config) {
  return ParseConfig(&config, {}).status();
}

TEST(ShimConfig, NullAndUnsetMembersLeaveTheDefaults) {
  CommunicatorOptions defaults;
  defaults.blocking = false;
  defaults.name = "parent";
  const ncclConfig_t config = Initial();
  for (const ncclConfig_t* given : {static_cast<const ncclConfig_t*>(nullptr), &config}) {
    const Result<CommunicatorOptions> options = ParseConfig(given, defaults);
    ASSERT_TRUE(options.ok());
    EXPECT_FALSE(options->blocking);
    EXPECT_EQ(options->name, "parent");
  }
}

TEST(ShimConfig, TakesWhatHasAMeaning) {
  ncclConfig_t config = Initial();
  config.blocking = 0;
  config.commName = "training";
  const Result<CommunicatorOptions> options = ParseConfig(&config, {});
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->blocking);
  EXPECT_EQ(options->name, "training");
}

TEST(ShimConfig, RefusesWhatWasNotInitialized) {
  ncclConfig_t config = {};
  EXPECT_EQ(Parse(config).code(), Code::kInvalidArgument);
  config = Initial();
  config.size = 8;
  EXPECT_EQ(Parse(config).code(), Code::kInvalidArgument);
}

TEST(ShimConfig, RefusesValuesOutOfRangeByName) {
  struct Case {
    int ncclConfig_t::*member;
    int value;
    const char* named;
  };
  const std::vector<Case> cases = {
      {&ncclConfig_t::blocking, 2, "blocking"},
      {&ncclConfig_t::blocking, -1, "blocking"},
      {&ncclConfig_t::cgaClusterSize, 9, "cgaClusterSize"},
      {&ncclConfig_t::minCTAs, 0, "minCTAs"},
      {&ncclConfig_t::maxCTAs, -3, "maxCTAs"},
      {&ncclConfig_t::splitShare, 2, "splitShare"},
      {&ncclConfig_t::trafficClass, -1, "trafficClass"},
      {&ncclConfig_t::collnetEnable, 7, "collnetEnable"},
      {&ncclConfig_t::CTAPolicy, 4, "CTAPolicy"},
      {&ncclConfig_t::shrinkShare, -1, "shrinkShare"},
      {&ncclConfig_t::nvlsCTAs, 0, "nvlsCTAs"},
      {&ncclConfig_t::nChannelsPerNetPeer, 0, "nChannelsPerNetPeer"},
      {&ncclConfig_t::nvlinkCentricSched, 5, "nvlinkCentricSched"},
  };
  for (const Case& one : cases) {
    ncclConfig_t config = Initial();
    config.*one.member = one.value;
    const Status status = Parse(config);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << one.named;
    EXPECT_NE(status.message().find(one.named), std::string::npos) << status.message();
  }
  ncclConfig_t crossed = Initial();
  crossed.minCTAs = 8;
  crossed.maxCTAs = 4;
  EXPECT_EQ(Parse(crossed).code(), Code::kInvalidArgument);
  crossed.maxCTAs = 8;
  EXPECT_TRUE(Parse(crossed).ok());
}

TEST(ShimConfig, ReadsNoFurtherThanAnOlderStructureGoes) {
  // NCCL 2.14's structure ended behind `blocking`. The rest of this memory is poisonous to read.
  const ncclConfig_t initial = Initial();
  const size_t old_size = offsetof(ncclConfig_t, blocking) + sizeof(int);
  std::vector<char> memory(old_size);
  std::memcpy(memory.data(), &initial, old_size);
  alignas(ncclConfig_t) static char place[sizeof(ncclConfig_t)];
  std::memset(place, 0x7f, sizeof place);
  std::memcpy(place, memory.data(), old_size);
  auto* config = reinterpret_cast<ncclConfig_t*>(place);
  config->size = old_size;
  config->blocking = 0;
  const Result<CommunicatorOptions> options = ParseConfig(config, {});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_FALSE(options->blocking);
  EXPECT_EQ(options->name, "");
}

/// A structure of a newer NCCL: ours, and behind it so many numbers.
template <int kNumbers>
struct NewerConfig {
  explicit NewerConfig(unsigned version) {
    known.size = sizeof *this;
    known.version = version;
    std::fill(std::begin(newer), std::end(newer), NCCL_CONFIG_UNDEF_INT);
  }
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  int newer[kNumbers];
};

TEST(ShimConfig, ReadsTheKnownMembersOfNewerStructures) {
  const auto expect_read = [](ncclConfig_t* config) {
    config->blocking = 0;
    config->commName = "newer";
    const Result<CommunicatorOptions> options = ParseConfig(config, {});
    ASSERT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_FALSE(options->blocking);
    EXPECT_EQ(options->name, "newer");
  };
  NewerConfig<4> of_2_30(23007);
  static_assert(sizeof of_2_30 == 96);
  expect_read(&of_2_30.known);
  NewerConfig<10> of_2_32(23203);
  static_assert(sizeof of_2_32 == 120);
  expect_read(&of_2_32.known);
  NewerConfig<200> of_the_future(29999);
  std::memset(of_the_future.newer, 0x5a, sizeof of_the_future.newer);
  expect_read(&of_the_future.known);
}

TEST(ShimConfig, NamesNewerMembersThatHaveNoEffect) {
  static std::vector<std::string> lines;
  SetLog(LogLevel::kInfo, kLogAll,
         [](LogLevel, LogSubsystem, std::string_view line) { lines.emplace_back(line); });
  NewerConfig<4> config(23007);
  config.newer[1] = 3;
  EXPECT_TRUE(Parse(config.known).ok());
  SetLog(LogLevel::kError, 0, [](LogLevel, LogSubsystem, std::string_view) {});
  EXPECT_EQ(lines, std::vector<std::string>{"config.numRmaCtx = 3 has no effect here"});
}

TEST(ShimConfig, TakesNewValuesOfANewerNcclWhereTheyMeanNothing) {
  ncclConfig_t config = Initial();
  config.CTAPolicy = 0x80;
  EXPECT_EQ(Parse(config).code(), Code::kInvalidArgument);
  config.version = 23203;
  EXPECT_TRUE(Parse(config).ok());
  config.blocking = 2;
  EXPECT_EQ(Parse(config).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace harmonaize::shim
