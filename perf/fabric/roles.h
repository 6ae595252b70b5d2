#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "perf/fabric/laboratory.h"

namespace harmonaize::fabric {

// What `fabric run` starts carries its role in its environment, where others find it.

inline constexpr char kRoleVariable[] = "HARMONAIZE_FABRIC_ROLE";
inline constexpr char kDaemonRole[] = "daemon";
inline constexpr char kRankRole[] = "rank";

struct RoleProcess {
  pid_t pid = -1;
  std::string host;
  std::string role;  ///< "daemon", "rank:3".
};

/// The daemons and ranks of a laboratory, without what they started in turn.
std::vector<RoleProcess> RoleProcesses(const Laboratory& laboratory);

/// "daemon, rank:0, rank:2" of one host.
std::string DescribeRoles(const std::vector<RoleProcess>& processes, const std::string& host);

}  // namespace harmonaize::fabric
