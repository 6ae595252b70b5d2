#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "perf/fabric/laboratory.h"

namespace harmonaize::fabric {

// Processes that `fabric run` starts have their role in their environment, by which others find
// them.

inline constexpr char kRoleVariable[] = "HARMONAIZE_FABRIC_ROLE";
inline constexpr char kDaemonRole[] = "daemon";
inline constexpr char kRankRole[] = "rank";

struct RoleProcess {
  pid_t pid = -1;
  std::string host;
  std::string role;  ///< "daemon", "rank:3".
};

/// Returns the daemons and ranks of a laboratory, without the processes that they started.
std::vector<RoleProcess> RoleProcesses(const Laboratory& laboratory);

/// Returns "daemon, rank:0, rank:2" for one host.
std::string DescribeRoles(const std::vector<RoleProcess>& processes, const std::string& host);

}  // namespace harmonaize::fabric
