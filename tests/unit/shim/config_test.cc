#include "shim/config.h"

#include <gtest/gtest.h>
#include <stddef.h>

#include <cstring>
#include <string>
#include <vector>

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

TEST(ShimConfig, IgnoresWhatANewerStructureHasBeyondOurs) {
  struct Newer {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int unknown[4] = {1, 2, 3, 4};
  } newer;
  newer.known.size = sizeof newer;
  newer.known.version = 23000;
  EXPECT_TRUE(Parse(newer.known).ok());
}

}  // namespace
}  // namespace harmonaize::shim
