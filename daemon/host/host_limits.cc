#include "daemon/host/host_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/kernel_files.h"

namespace harmonaize::daemon {
namespace {

/// Linux's own default of vm.max_map_count, for hosts that do not tell theirs.
constexpr int64_t kUsualMappings = 65530;

/// Most descriptors that one connection takes: its socket, its process's, its session's bell, and
/// the session's memory while it is handed over.
constexpr int64_t kDescriptorsOfConnection = 4;

/// Most unique ids that the daemon keeps for all tenants: 400 bytes each, some 25 MiB.
constexpr int64_t kMostUniqueIds = 1 << 16;

/// Most tickets that the daemon keeps for all tenants: 400 bytes each, some 25 MiB.
constexpr int64_t kMostTickets = 1 << 16;
/// Most newcomers of all tenants that wait at this home: 300 bytes each, some 20 MiB.
constexpr int64_t kMostNewcomers = 1 << 16;

/// Most sessions of all tenants. Their memory is limited as such; this limits the time of the
/// rounds in which the engine looks through all sessions and communicators, to 100 us.
constexpr int64_t kMostSessions = 1 << 14;
/// Most communicators of all tenants, for the same reason.
constexpr int64_t kMostCommunicators = 1 << 16;
/// Most ranks of all tenants on this host: four for each communicator.
constexpr int64_t kMostRanksOnHost = 1 << 18;

/// Returns the smallest memory limit of the control groups that this process is in, and no more
/// than `most`.
int64_t MemoryLimit(int64_t most) {
  const std::string line = FirstLine("/proc/self/cgroup");
  if (line.rfind("0::/", 0) != 0) return most;
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::filesystem::path group = root / line.substr(4);
  while (true) {
    const auto limit = NumberIn(group / "memory.max");
    if (limit.has_value()) most = static_cast<int64_t>(std::min<uint64_t>(*limit, most));
    if (group == root || !group.has_relative_path() || group == group.parent_path()) return most;
    group = group.parent_path();
  }
}

}  // namespace

HostCapacity CapacityOfHost() {
  HostCapacity capacity;
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    // The limit may be infinite; sums of descriptors must not overflow.
    constexpr rlim_t kMostDescriptors = rlim_t{1} << 30;
    capacity.descriptors = static_cast<int64_t>(std::min(descriptors.rlim_cur, kMostDescriptors));
  }
  capacity.mappings =
      static_cast<int64_t>(NumberIn("/proc/sys/vm/max_map_count").value_or(kUsualMappings));
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  capacity.memory_bytes = MemoryLimit(memory);
  return capacity;
}

// The shares of descriptors and mappings leave a quarter and a half of these for the daemon's own
// use: rails to other hosts, files, threads' stacks, and messages on their way.
ResourceLimits LimitsOfHost(const Config& config, const HostCapacity& capacity) {
  ResourceLimits limits{};
  const auto set = [&](Resource resource, int64_t quota, int64_t for_all) {
    limits[static_cast<size_t>(resource)] = {quota == 0 ? for_all : quota, for_all};
  };
  const Quota& quota = config.quota;
  set(Resource::kConnections, quota.connections,
      capacity.descriptors / 2 / kDescriptorsOfConnection);
  set(Resource::kSessions, quota.sessions, kMostSessions);
  set(Resource::kRegions, quota.regions, capacity.mappings / 2);
  // Registered memory is the tenants' own. Mapping it costs the daemon the page tables, a 512th.
  // All tenants together may register as much as they have; each is bounded by its quota.
  set(Resource::kRegisteredBytes, quota.region_bytes, HostHoldings::kMostOfAResource);
  set(Resource::kRegionDescriptors, 0, capacity.descriptors / 4);
  set(Resource::kUniqueIds, quota.unique_ids, kMostUniqueIds);
  set(Resource::kCommunicators, quota.communicators, kMostCommunicators);
  set(Resource::kRanks, quota.ranks, kMostRanksOnHost);
  set(Resource::kTickets, quota.tickets, kMostTickets);
  set(Resource::kNewcomers, quota.newcomers, kMostNewcomers);
  set(Resource::kMemory, quota.memory_bytes, capacity.memory_bytes / 2);
  // They stay when their ranks have gone, and with them the limits of the ranks' control groups.
  set(Resource::kCheckpointBytes, quota.checkpoint_bytes, capacity.memory_bytes / 2);
  return limits;
}

}  // namespace harmonaize::daemon
