// Holds our nccl.h against NVIDIA's, both in this one translation unit. All of it happens at
// compile time; the test at the end only says that it did.

#include <gtest/gtest.h>
#include <limits.h>
#include <stddef.h>

#include <string_view>
#include <type_traits>

#include "include/nccl.h"
#include "shim_abi_names.h"

namespace ours {
#define X(name) [[maybe_unused]] constexpr long long k_##name = name;
HARMONAIZE_ABI_INTEGER_MACROS(X)
#undef X
constexpr std::string_view kSuffix = NCCL_SUFFIX;
constexpr float kUndefinedFloat = NCCL_UNDEF_FLOAT;
constexpr const void* kUndefinedPointer = NCCL_CONFIG_UNDEF_PTR;
constexpr ncclComm_t kNullCommunicator = NCCL_COMM_NULL;
constexpr long long kOldVersion = NCCL_VERSION(2, 8, 3);
constexpr long long kNewVersion = NCCL_VERSION(2, 9, 1);
constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
constexpr ncclSimInfo_t kSimulation = NCCL_SIM_INFO_INITIALIZER;
}  // namespace ours

#include "shim_abi_forget.h"
#include "shim_abi_rename.h"
namespace nvidia {
#include HARMONAIZE_NVIDIA_NCCL_HEADER
}  // namespace nvidia
#include "shim_abi_restore.h"

namespace nvidia {
#define X(name) static_assert(ours::k_##name == (name), #name);
HARMONAIZE_ABI_INTEGER_MACROS(X)
#undef X
static_assert(ours::kSuffix == NCCL_SUFFIX);
static_assert(ours::kUndefinedFloat == NCCL_UNDEF_FLOAT);
static_assert(ours::kUndefinedPointer == NCCL_CONFIG_UNDEF_PTR);
static_assert(ours::kNullCommunicator == NCCL_COMM_NULL);
static_assert(ours::kOldVersion == NCCL_VERSION(2, 8, 3));
static_assert(ours::kNewVersion == NCCL_VERSION(2, 9, 1));
constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
constexpr ncclSimInfo_t kSimulation = NCCL_SIM_INFO_INITIALIZER;
}  // namespace nvidia

#define X(name)                                                         \
  static_assert(static_cast<long long>(::name) == nvidia::name, #name); \
  static_assert(sizeof(::name) == sizeof(nvidia::name), #name);
HARMONAIZE_ABI_ENUMERATORS(X)
#undef X

static_assert(sizeof(::ncclConfig_t) == sizeof(nvidia::ncclConfig_t));
static_assert(alignof(::ncclConfig_t) == alignof(nvidia::ncclConfig_t));
#define X(member)                                                                                \
  static_assert(offsetof(::ncclConfig_t, member) == offsetof(nvidia::ncclConfig_t, member));     \
  static_assert(                                                                                 \
      std::is_same_v<decltype(::ncclConfig_t::member), decltype(nvidia::ncclConfig_t::member)>); \
  static_assert(ours::kConfig.member == nvidia::kConfig.member);
X(size)
X(magic)
X(version)
X(blocking)
X(cgaClusterSize)
X(minCTAs)
X(maxCTAs)
X(netName)
X(splitShare)
X(trafficClass)
X(commName)
X(collnetEnable)
X(CTAPolicy)
X(shrinkShare)
X(nvlsCTAs)
X(nChannelsPerNetPeer)
X(nvlinkCentricSched)
#undef X

static_assert(sizeof(::ncclSimInfo_t) == sizeof(nvidia::ncclSimInfo_t));
#define X(member)                                                                                  \
  static_assert(offsetof(::ncclSimInfo_t, member) == offsetof(nvidia::ncclSimInfo_t, member));     \
  static_assert(                                                                                   \
      std::is_same_v<decltype(::ncclSimInfo_t::member), decltype(nvidia::ncclSimInfo_t::member)>); \
  static_assert(ours::kSimulation.member == nvidia::kSimulation.member);
X(size)
X(magic)
X(version)
X(estimatedTime)
#undef X

static_assert(sizeof(::ncclUniqueId) == sizeof(nvidia::ncclUniqueId));
static_assert(alignof(::ncclUniqueId) == alignof(nvidia::ncclUniqueId));
static_assert(sizeof(::ncclUniqueId::internal) == sizeof(nvidia::ncclUniqueId::internal));

namespace {

// The type of ours that has the place of NVIDIA's type T. The handles need no line: both headers
// point to the same incomplete types.
template <typename T>
struct OursFor {
  using type = T;
};
template <typename T>
using Ours = typename OursFor<T>::type;
#define X(name)                  \
  template <>                    \
  struct OursFor<nvidia::name> { \
    using type = ::name;         \
  };
X(ncclResult_t)
X(ncclUniqueId)
X(ncclConfig_t)
X(ncclSimInfo_t)
X(ncclDataType_t)
X(ncclRedOp_t)
X(ncclScalarResidence_t)
#undef X
template <typename T>
struct OursFor<T*> {
  using type = Ours<T>*;
};
template <typename T>
struct OursFor<const T> {
  using type = const Ours<T>;
};
template <typename Return, typename... Arguments>
struct OursFor<Return(Arguments...)> {
  using type = Ours<Return>(Ours<Arguments>...);
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define X(name) \
  static_assert(std::is_same_v<decltype(::name), Ours<decltype(nvidia::nvidia_##name)>>, #name);
HARMONAIZE_ABI_FUNCTIONS(X)
#undef X
#pragma GCC diagnostic pop

#define X(name) +1
constexpr int kFunctions = 0 HARMONAIZE_ABI_FUNCTIONS(X);
constexpr int kEnumerators = 0 HARMONAIZE_ABI_ENUMERATORS(X);
constexpr int kMacros = 0 HARMONAIZE_ABI_INTEGER_MACROS(X);
#undef X

TEST(ShimAbi, AgreesWithTheInstalledHeader) {
  // Guards the lists themselves: a header that could not be read would agree with everything.
  EXPECT_GE(kFunctions, 82);
  EXPECT_GE(kEnumerators, 35);
  EXPECT_GE(kMacros, 15);
}

}  // namespace
