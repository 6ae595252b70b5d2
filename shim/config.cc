#include "shim/config.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "src/base/log.h"

namespace harmonaize::shim {
namespace {

constexpr unsigned kMagic = 0xcafebeef;

/// A member of ncclConfig_t that is a number, and its bounds.
struct Member {
  const char* name;
  int ncclConfig_t::*value;
  int least;
  int most;
  bool has_meaning;
};

constexpr std::array<Member, 12> kMembers = {{
    {"blocking", &ncclConfig_t::blocking, 0, 1, true},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, 8, false},
    {"minCTAs", &ncclConfig_t::minCTAs, 1, INT_MAX, false},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 1, INT_MAX, false},
    {"splitShare", &ncclConfig_t::splitShare, 0, 1, false},
    {"trafficClass", &ncclConfig_t::trafficClass, 0, INT_MAX, false},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1, false},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO,
     false},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1, false},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 1, INT_MAX, false},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 1, INT_MAX, false},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0, 1, false},
}};

/// Numbers that NCCL 2.30 and 2.31 added behind the members of our structure, in their order. None
/// has a meaning here.
constexpr std::array<const char*, 9> kNewerMembers = {
    "graphUsageMode", "numRmaCtx",    "maxP2pPeers", "graphStreamOrdering", "launchOrderImplicit",
    "numRmaSig",      "rmaEagerInit", "hostCftMode", "nvlsHostMode"};

/// Names in the log what the caller has set among kNewerMembers. Members beyond these are ignored
/// in silence: their types are not known.
void LogNewerMembers(const ncclConfig_t* config) {
  const char* const bytes = reinterpret_cast<const char*>(config);
  for (size_t i = 0; i < kNewerMembers.size(); ++i) {
    const size_t offset = sizeof(ncclConfig_t) + i * sizeof(int);
    if (config->size < offset + sizeof(int)) return;
    int value;
    std::memcpy(&value, bytes + offset, sizeof value);
    if (value == NCCL_CONFIG_UNDEF_INT) continue;
    Log(LogLevel::kInfo, kLogInit, "config.{} = {} has no effect here", kNewerMembers[i], value);
  }
}

/// Returns the caller's members in a structure of our size.
Result<ncclConfig_t> Normalize(const ncclConfig_t* config) {
  // The first two members are at the same place in every version.
  if (config->magic != kMagic || config->size < offsetof(ncclConfig_t, blocking)) {
    return InvalidArgument("config was not initialized with NCCL_CONFIG_INITIALIZER");
  }
  ncclConfig_t ours = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&ours, config, std::min(config->size, sizeof ours));
  return ours;
}

Status CheckMember(const ncclConfig_t& config, const Member& member) {
  const int value = config.*member.value;
  if (value == NCCL_CONFIG_UNDEF_INT) return Status::Ok();
  // A newer NCCL may give more values to a member that means nothing here.
  const bool may_be_newer = !member.has_meaning && config.version > NCCL_VERSION_CODE;
  if ((value < member.least || value > member.most) && !may_be_newer) {
    return member.most == INT_MAX
               ? InvalidArgument("config.{} is {}, less than {}", member.name, value, member.least)
               : InvalidArgument("config.{} is {}, not in [{}, {}]", member.name, value,
                                 member.least, member.most);
  }
  if (!member.has_meaning) {
    Log(LogLevel::kInfo, kLogInit, "config.{} = {} has no effect here", member.name, value);
  }
  return Status::Ok();
}

Status Check(const ncclConfig_t& config) {
  for (const Member& member : kMembers) HZ_RETURN_IF_ERROR(CheckMember(config, member));
  const bool has_both =
      config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (has_both && config.minCTAs > config.maxCTAs) {
    return InvalidArgument("config.minCTAs is {}, more than config.maxCTAs = {}", config.minCTAs,
                           config.maxCTAs);
  }
  if (config.netName != NCCL_CONFIG_UNDEF_PTR) {
    Log(LogLevel::kInfo, kLogInit, "config.netName = {} has no effect here", config.netName);
  }
  return Status::Ok();
}

}  // namespace

Result<CommunicatorOptions> ParseConfig(const ncclConfig_t* config,
                                        const CommunicatorOptions& defaults) {
  CommunicatorOptions options = defaults;
  if (config == nullptr) return options;
  HZ_ASSIGN_OR_RETURN(const ncclConfig_t ours, Normalize(config));
  HZ_RETURN_IF_ERROR(Check(ours));
  LogNewerMembers(config);
  if (ours.blocking != NCCL_CONFIG_UNDEF_INT) options.blocking = ours.blocking == 1;
  if (ours.commName != NCCL_CONFIG_UNDEF_PTR) options.name = ours.commName;
  return options;
}

CommunicatorOptions DefaultOptions() {
  CommunicatorOptions options;
  if (const char* label = secure_getenv("LOCAL_RANK"); label != nullptr) {
    options.device = std::atoi(label);
  }
  return options;
}

}  // namespace harmonaize::shim
