// Processes of jobs that load the profiler plugin, and what a daemon makes of their events.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/support/daemon_http.h"
#include "tests/support/eventually.h"
#include "tests/support/other_users.h"
#include "tests/support/profiler_host.h"

namespace harmonaize::testing {

/// Longest wait, in seconds, until the daemon has read what was written; it does every 20 ms.
constexpr double kReadWithin = 30;

inline const ProfilerLibrary& Library() {
  static const ProfilerLibrary kLibrary(PROFILER_PLUGIN);
  return kLibrary;
}

/// Runs `body` in a process of the job. Returns its status.
inline int RunInJob(const std::string& job, const std::function<void()>& body) {
  // Opened here: other users may not reach the file.
  Library();
  return StatusOf(StartAs(getuid(), [&] {
    setenv("HARMONAIZE_JOB", job.c_str(), 1);
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  }));
}

inline nlohmann::json ProfileAt(const std::string& socket, const std::string& job) {
  const Answer answer = Ask(socket, {.target = "/v1/jobs/" + job + "/profile"});
  return answer.first == 200 ? answer.second : nlohmann::json();
}

/// Returns the job's profile once it has this many events and lost ones together.
inline nlohmann::json ProfileWith(const std::string& socket, const std::string& job,
                                  uint64_t events) {
  nlohmann::json profile;
  const bool came = Eventually(kReadWithin, [&] {
    profile = ProfileAt(socket, job);
    if (!profile.is_object()) return false;
    return profile.at("events").get<uint64_t>() + profile.at("lost").get<uint64_t>() >= events;
  });
  EXPECT_TRUE(came) << JsonText(profile, 1);
  return profile;
}

}  // namespace harmonaize::testing
