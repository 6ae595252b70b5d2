#pragma once

#include <sys/types.h>

#include <string>

namespace harmonaize {

/// What the numbers of users mean to this process. In a user namespace those whom it does not know
/// have no number of their own: the kernel shows every one of them as the overflow user.
struct UserNumbers {
  enum class Known { kAll, kSome, kCannotTell };

  /// Parameters: the files in which the kernel tells it.
  static UserNumbers OfThisProcess(
      const std::string& map_file = "/proc/self/uid_map",
      const std::string& overflow_file = "/proc/sys/kernel/overflowuid");

  /// Whether this number may stand for any user of the host.
  bool MayBeAnybody(uid_t user) const { return user == overflow_user && known != Known::kAll; }
  /// Whether a file or process of `user` is this user's own or root's.
  bool IsSelfOrRoot(uid_t user) const;

  Known known = Known::kCannotTell;
  uid_t overflow_user = 65534;
};

}  // namespace harmonaize
