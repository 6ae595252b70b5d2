#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// One user of the host, as the kernel names it, and what it holds. Lives as long as it holds
/// anything.
struct Tenant {
  uid_t user = 0;
  std::string name{};
  double weight = 1;  ///< Its share of what others want too, with its priority: Config::shares.
  int64_t sessions = 0;
  int64_t communicators = 0;
  int64_t regions = 0;
  int64_t region_descriptors = 0;  ///< Kept of these regions.
  int64_t region_bytes = 0;
  uint64_t operations = 0;  ///< Completed, counted once a communicator.
  uint64_t bytes = 0;       ///< Of those operations, as nccl-tests counts the size.
};

/// Counts one more of something against a quota; kInvalidUsage that names the quota when it is
/// full.
Status Charge(const Tenant& tenant, const char* what, int64_t* held, int64_t amount, int64_t limit);

/// What the provider has decided for a user, by name or number; 1 where it has not.
double WeightOf(uid_t user, const std::string& name, const std::vector<ShareConfig>& shares);

/// The user's name, or its number.
std::string UserName(uid_t user);

}  // namespace harmonaize::daemon
