#include "perf/fabric/roles.h"

#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "perf/fabric/namespaces.h"

namespace harmonaize::fabric {

std::vector<RoleProcess> RoleProcesses(const Laboratory& laboratory) {
  const size_t prefix = NamespaceName(laboratory.name(), "").size();
  std::vector<RoleProcess> processes;
  for (const NamespaceProcess& process : ProcessesIn(NamespacesOf(laboratory.name()))) {
    // The launcher gives each of them a process group of its own.
    if (::getpgid(process.pid) != process.pid) continue;
    std::string role = EnvironmentOf(process.pid, kRoleVariable);
    if (role.empty()) continue;
    if (role == kRankRole) role += ":" + EnvironmentOf(process.pid, "RANK");
    processes.push_back({process.pid, process.space.substr(prefix), role});
  }
  std::sort(processes.begin(), processes.end(), [](const RoleProcess& a, const RoleProcess& b) {
    return std::tie(a.host, a.role, a.pid) < std::tie(b.host, b.role, b.pid);
  });
  return processes;
}

std::string DescribeRoles(const std::vector<RoleProcess>& processes, const std::string& host) {
  std::string text;
  for (const RoleProcess& process : processes) {
    if (process.host != host) continue;
    text += (text.empty() ? "" : ", ") + process.role;
  }
  return text;
}

}  // namespace harmonaize::fabric
