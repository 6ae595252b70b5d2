#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/sources/source_poller.h"

namespace harmonaize::daemon {

/// Time after which a test gives up what it waits for: far more than a busy machine takes.
inline constexpr std::chrono::seconds kPatience{30};

/// Polls often, so that tests are short; with the usual deadline.
inline PollPace QuickPace() {
  PollPace pace;
  pace.second = std::chrono::milliseconds(10);
  pace.most_pause = std::chrono::milliseconds(50);
  return pace;
}

/// The notices that a poller has passed on.
class HeardNotices {
 public:
  SourcePoller::OnNotice Callback() {
    return [this](const CloudNotice& notice) {
      const std::lock_guard lock(mutex_);
      notices_.push_back(notice);
      changed_.notify_all();
    };
  }
  /// Waits until there are `count` notices, and returns them all.
  std::vector<CloudNotice> WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, kPatience, [&] { return notices_.size() >= count; });
    EXPECT_TRUE(came) << "there are " << notices_.size() << " notices, not " << count;
    std::vector<CloudNotice> notices = notices_;
    notices.resize(std::max(notices.size(), count));
    return notices;
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return notices_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CloudNotice> notices_;  // guarded by mutex_
};

/// Waits until `holds`; returns whether it came to hold.
inline bool Await(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Waits until the poller's sources all have this health.
inline bool AwaitHealth(const SourcePoller& poller, SourceHealth health) {
  return Await([&] {
    for (const SourceReport& report : poller.Report()) {
      if (report.health != health) return false;
    }
    return true;
  });
}

}  // namespace harmonaize::daemon
