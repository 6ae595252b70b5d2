#include "daemon/identity/control_groups.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <deque>
#include <memory>

namespace harmonaize::daemon {
namespace {

/// Most groups that are looked at for one number. Users can make groups without end below their
/// own; those that stand higher come first.
constexpr size_t kMostGroups = 32768;

}  // namespace

ControlGroups::ControlGroups(std::vector<std::string> folders) {
  for (std::string& folder : folders) {
    struct statfs found {};
    if (statfs(folder.c_str(), &found) != 0 || found.f_type != CGROUP2_SUPER_MAGIC) continue;
    root_ = std::move(folder);
    return;
  }
}

std::optional<std::string> ControlGroups::PathOf(uint64_t number) const {
  struct stat root {};
  if (root_.empty() || stat(root_.c_str(), &root) != 0) return std::nullopt;
  if (root.st_ino == number) return "/";
  std::deque<std::string> waiting = {""};
  size_t seen = 0;
  for (; !waiting.empty(); waiting.pop_front()) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir((root_ + waiting.front()).c_str()),
                                                     &closedir);
    if (folder == nullptr) continue;
    while (const dirent* const entry = readdir(folder.get())) {
      if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
      std::string path = waiting.front() + "/" + entry->d_name;
      if (entry->d_ino == number) return path;
      if (++seen == kMostGroups) return std::nullopt;
      waiting.push_back(std::move(path));
    }
  }
  return std::nullopt;
}

}  // namespace harmonaize::daemon
