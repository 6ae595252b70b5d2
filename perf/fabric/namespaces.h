#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::fabric {

// The nodes of a laboratory are network namespaces with names of their own in /run/netns, where
// ip(8) keeps them: "hzf.<laboratory>.<node>". Neither name can hold a '.', so no laboratory's
// prefix begins another's.

std::string NamespaceName(const std::string& laboratory, const std::string& node);

/// Whether this process may make network namespaces, and ip and tc are there. kUnavailable says
/// what is missing and how to come by it.
Status CheckPrivileges();

/// The names of all namespaces of a laboratory, sorted.
std::vector<std::string> NamespacesOf(const std::string& laboratory);

/// Calls `work` on a thread of its own within the namespace; sockets that it opens stay there.
Status InNamespace(const std::string& name, const std::function<Status()>& work);

/// Writes `value` to /proc/sys/`key` of the namespace that the calling thread is in.
Status SetKernelParameter(const std::string& key, const std::string& value);

/// How a process moves into a namespace for good, with a /sys that shows its devices.
class NamespaceEntry {
 public:
  static Result<NamespaceEntry> Open(const std::string& name);
  /// To be called by a process with one thread. Allocates nothing, so it may stand between fork
  /// and exec. False: errno says why.
  bool Enter() const;

 private:
  FileDescriptor fd_;
};

/// A process that is in one of a laboratory's namespaces.
struct NamespaceProcess {
  pid_t pid = -1;
  std::string space;
};
std::vector<NamespaceProcess> ProcessesIn(const std::vector<std::string>& names);

/// The value of a variable in the environment that a process was started with, or "".
std::string EnvironmentOf(pid_t process, const std::string& variable);

/// Asks all processes in these namespaces to end, and kills those that have not within two seconds.
Status EndProcessesIn(const std::vector<std::string>& names);

}  // namespace harmonaize::fabric
