#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace harmonaize::daemon {

/// A thread for work that takes milliseconds or more. Calls run one after the other: those of one
/// tenant in the order posted, while the tenants take turns, so that none waits for all that
/// another has asked for. An exception of a call is logged and ends that call alone. A caller that
/// waits for a call's outcome must catch what the call throws.
class Background {
 public:
  Background();
  /// Waits for the call that runs, and drops the calls that wait.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Runs `call` on this thread, in the turn of `tenant` (TenantIdentity::number). Its log lines
  /// count as those of the tenant that the caller logs for (LogFor). Thread: any.
  void Post(std::function<void()> call, uint32_t tenant = kTheDaemonsOwn);
  /// The `tenant` of calls that the daemon makes for itself.
  static constexpr uint32_t kTheDaemonsOwn = UINT32_MAX;

 private:
  struct Queue {
    uint32_t tenant;
    std::deque<std::function<void()>> calls;
  };

  void Run();
  std::function<void()> TakeNext();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::list<Queue> queues_;  // guarded by mutex_; in the order of turns, none is empty
  bool stopping_ = false;    // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::daemon
