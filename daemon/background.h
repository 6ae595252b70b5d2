#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace harmonaize::daemon {

/// A thread for what takes milliseconds and more: calls run one after the other, in the order
/// posted. An exception of a call is logged and ends that call alone. A caller that waits for a
/// call's outcome must catch what the call throws.
class Background {
 public:
  Background();
  /// Lets the call that runs end; those that wait are dropped.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Any thread.
  void Post(std::function<void()> call);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> calls_;  // guarded by mutex_
  bool stopping_ = false;                    // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::daemon
