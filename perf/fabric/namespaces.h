#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::fabric {

// The nodes of a laboratory are network namespaces, with names of their own in /run/netns, where
// ip(8) keeps them: "hzf.<laboratory>.<node>". Neither name can contain a '.', so no laboratory's
// prefix is the beginning of another's.

std::string NamespaceName(const std::string& laboratory, const std::string& node);

/// Returns ok if this process may make network namespaces, and ip and tc exist. Errors:
/// kUnavailable, with what is missing and how to get it.
Status CheckPrivileges();

/// Returns the names of all namespaces of a laboratory, sorted.
std::vector<std::string> NamespacesOf(const std::string& laboratory);

/// Calls `work` on a thread of its own within the namespace; sockets that it opens stay there.
Status InNamespace(const std::string& name, const std::function<Status()>& work);

/// Writes `value` to /proc/sys/`key` of the namespace that the calling thread is in.
Status SetKernelParameter(const std::string& key, const std::string& value);

/// Moves a process into a namespace for good, with a /sys that shows its devices.
class NamespaceEntry {
 public:
  static Result<NamespaceEntry> Open(const std::string& name);
  /// Enters the namespace. Allocates nothing, so it may be called between fork and exec. Returns
  /// false with errno. Requires: the process has one thread.
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

/// Returns the value of a variable in the environment that a process was started with, or "".
std::string EnvironmentOf(pid_t process, const std::string& variable);

/// Asks all processes in these namespaces to end, and kills those that have not within two seconds.
Status EndProcessesIn(const std::vector<std::string>& names);

}  // namespace harmonaize::fabric
