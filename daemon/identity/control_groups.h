#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace harmonaize::daemon {

/// Finds control groups of the unified hierarchy (cgroup v2) by the kernel's numbers for them,
/// which are the inodes of their folders. Thread: one.
class ControlGroups {
 public:
  /// `folders`: where the hierarchy may be mounted; the first one that is of its kind counts.
  explicit ControlGroups(std::vector<std::string> folders = {"/sys/fs/cgroup",
                                                             "/sys/fs/cgroup/unified"});

  /// Returns the path of a group within the hierarchy, such as "/" or "/user.slice"; nullopt where
  /// there is none of this number, or it is not among the first groups that are looked at. Looks
  /// through all folders, which may take some milliseconds.
  std::optional<std::string> PathOf(uint64_t number) const;

 private:
  std::string root_;  ///< "": the hierarchy is not mounted.
};

}  // namespace harmonaize::daemon
