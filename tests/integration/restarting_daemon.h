#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "cli/run/private_daemon.h"

namespace harmonaize::testing {

/// A daemon that may be ended and begun again with the same state. HARMONAIZE_SOCKET names it.
class RestartingDaemon {
 public:
  RestartingDaemon() {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    EXPECT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    options_.program = HARMONAIZED_PROGRAM;
    options_.folder = folder_.path();
    options_.log_level = "error";
    sigemptyset(&options_.signal_mask);
    Begin();
    setenv("HARMONAIZE_SOCKET", socket().c_str(), 1);
  }
  ~RestartingDaemon() { End(); }

  void Begin() {
    Result<PrivateDaemon> daemon = PrivateDaemon::Start(options_);
    ASSERT_TRUE(daemon.ok()) << daemon.status().message();
    daemon_ = std::move(*daemon);
  }
  /// Ends it as a crash would, and begins the next one.
  void Crash() {
    kill(daemon_.process().pid(), SIGKILL);
    static_cast<void>(daemon_.Stop(kLongestEnd));
    Begin();
  }
  void End() { EXPECT_TRUE(daemon_.Stop(kLongestEnd).ok()); }
  void Restart() {
    End();
    Begin();
  }
  std::string socket() const { return folder_.path() + "/harmonaized.sock"; }
  std::string state_path() const { return folder_.path() + "/state"; }
  pid_t pid() { return daemon_.process().pid(); }

 private:
  /// Longest time that an end of the daemon may take.
  static constexpr std::chrono::seconds kLongestEnd{20};

  TemporaryFolder folder_;
  PrivateDaemon::Options options_;
  PrivateDaemon daemon_;
};

}  // namespace harmonaize::testing
