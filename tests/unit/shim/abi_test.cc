// The binary interface of NCCL 2.28.9 as numbers, held where NVIDIA's header is not installed too.

#include <gtest/gtest.h>
#include <stddef.h>

#include <type_traits>

#include "include/harmonaize.h"

static_assert(NCCL_VERSION_CODE == 22809);
static_assert(NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH) == NCCL_VERSION_CODE);
static_assert(sizeof(ncclUniqueId) == 128);
static_assert(alignof(ncclUniqueId) == 1);

static_assert(ncclNumResults == 8);
static_assert(ncclInProgress == 7);
static_assert(ncclNumTypes == 12);
static_assert(ncclFloat8e5m2 == 11);
static_assert(ncclNumOps == 5);
static_assert(ncclMax == 2 && ncclMin == 3);
static_assert(ncclMaxRedOp == 0x7fffffff);
static_assert(sizeof(ncclRedOp_t) == 4 && sizeof(ncclDataType_t) == 4 && sizeof(ncclResult_t) == 4);

static_assert(sizeof(ncclConfig_t) == 80);
static_assert(offsetof(ncclConfig_t, magic) == 8);
static_assert(offsetof(ncclConfig_t, version) == 12);
static_assert(offsetof(ncclConfig_t, blocking) == 16);
static_assert(offsetof(ncclConfig_t, cgaClusterSize) == 20);
static_assert(offsetof(ncclConfig_t, minCTAs) == 24);
static_assert(offsetof(ncclConfig_t, maxCTAs) == 28);
static_assert(offsetof(ncclConfig_t, netName) == 32);
static_assert(offsetof(ncclConfig_t, splitShare) == 40);
static_assert(offsetof(ncclConfig_t, trafficClass) == 44);
static_assert(offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, collnetEnable) == 56);
static_assert(offsetof(ncclConfig_t, CTAPolicy) == 60);
static_assert(offsetof(ncclConfig_t, shrinkShare) == 64);
static_assert(offsetof(ncclConfig_t, nvlsCTAs) == 68);
static_assert(offsetof(ncclConfig_t, nChannelsPerNetPeer) == 72);
static_assert(offsetof(ncclConfig_t, nvlinkCentricSched) == 76);

static_assert(sizeof(ncclSimInfo_t) == 24);
static_assert(offsetof(ncclSimInfo_t, estimatedTime) == 16);

// Structures of NCCL 2.29 to 2.32.
static_assert(sizeof(ncclWaitSignalDesc_t) == 16);
static_assert(offsetof(ncclWaitSignalDesc_t, ctx) == 12);
static_assert(sizeof(ncclConfigExt_t) == 24);
static_assert(offsetof(ncclConfigExt_t, val) == 16);
static_assert(sizeof(ncclCollConfig_t) == 72);
static_assert(offsetof(ncclCollConfig_t, ext) == 16);
static_assert(offsetof(ncclCollConfig_t, cgaClusterSize) == 36);
static_assert(offsetof(ncclCollConfig_t, algSelection) == 40);
static_assert(offsetof(ncclCollConfig_t, CTAPolicy) == 52);
static_assert(offsetof(ncclCollConfig_t, userProfilerTag) == 56);
static_assert(offsetof(ncclCollConfig_t, launchCompletionEvent) == 64);
static_assert(sizeof(ncclEncryptionConfig_t) == 32);
static_assert(offsetof(ncclEncryptionConfig_t, mode) == 16);
static_assert(offsetof(ncclEncryptionConfig_t, psk) == 24);
static_assert(ncclStatGpuMemTotal == 3 && sizeof(ncclCommMemStat_t) == 4);

static_assert(std::is_same_v<cudaStream_t, struct CUstream_st*>);
static_assert(std::is_same_v<hzStream_t, cudaStream_t>);
static_assert(sizeof(hzPlace_t) == 144 && HZ_TICKET_BYTES == 256);
static_assert(offsetof(hzPlace_t, id) == 8 && offsetof(hzPlace_t, ranks) == 136);

namespace {

extern "C" size_t ShimHeaderInC(ncclConfig_t* config, ncclSimInfo_t* simulation);

TEST(ShimAbi, CAndCxxAgree) {
  ncclConfig_t config = {};
  ncclSimInfo_t simulation = {};
  EXPECT_EQ(ShimHeaderInC(&config, &simulation), sizeof config + sizeof simulation);
  EXPECT_EQ(config.size, sizeof config);
  EXPECT_EQ(config.magic, 0xcafebeefu);
  EXPECT_EQ(config.version, 22809u);
  EXPECT_EQ(config.nvlinkCentricSched, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(simulation.magic, 0x74685283u);
  EXPECT_EQ(simulation.estimatedTime, -1.0f);
}

}  // namespace
