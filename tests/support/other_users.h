#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace harmonaize::testing {

// Users that no host has. A test that runs as root can become them.
inline constexpr uid_t kAlice = 64001;
inline constexpr uid_t kBob = 64002;
inline constexpr uid_t kCarol = 64003;

/// Becomes this user, alone in the group of the same number and in `groups`. Ends the process if
/// that fails.
void BecomeUser(uid_t user, const std::vector<gid_t>& groups = {});

/// Forks a child that becomes the user, calls `body` and ends with the status it returns, or with 1
/// where gtest has noted a failure in it. The child dies with this process.
pid_t StartAs(uid_t user, const std::function<int()>& body, const std::vector<gid_t>& groups = {});

/// Waits for the child. Returns its status as a shell gives it.
int StatusOf(pid_t child);

/// A program's standard output and error, and its status as a shell gives it.
struct Ran {
  int status = -1;
  std::string text;
};

/// Runs a program as the user, with only PATH and `environment` in its environment. Ends it after
/// half a minute.
Ran RunAs(uid_t user, const std::vector<std::string>& words,
          const std::map<std::string, std::string>& environment = {},
          const std::vector<gid_t>& groups = {});

/// A private view of the host: a process, and its children, with folders /tmp, /run and /etc of
/// their own. /tmp/bin has the given programs.
class PrivateHost {
 public:
  /// Returns why this process cannot make one; "" where it can.
  static std::string WhyNot();
  /// Calls `body` in a child for which the host is private; gtest failures in it are failures of
  /// this test.
  static void Run(const std::vector<std::string>& programs, const std::function<void()>& body);
};

}  // namespace harmonaize::testing
