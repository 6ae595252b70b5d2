#pragma once

#include <sys/types.h>

#include <string>

namespace harmonaize {

/// Meaning of users' numbers for this process. In a user namespace the users that it does not know
/// have no numbers of their own: the kernel shows each of them as the overflow user.
struct UserNumbers {
  enum class Known { kAll, kSome, kCannotTell };

  /// Parameters: the kernel's files with the user map and the overflow user.
  static UserNumbers OfThisProcess(
      const std::string& map_file = "/proc/self/uid_map",
      const std::string& overflow_file = "/proc/sys/kernel/overflowuid");

  /// Returns whether this number may stand for any user of the host.
  bool MayBeAnybody(uid_t user) const { return user == overflow_user && known != Known::kAll; }
  /// Returns whether a file or process of `user` belongs to this user or to root.
  bool IsSelfOrRoot(uid_t user) const;

  Known known = Known::kCannotTell;
  uid_t overflow_user = 65534;
};

}  // namespace harmonaize
