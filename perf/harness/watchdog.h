#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "include/nccl.h"

namespace harmonaize::perf {

/// Ends a measurement that hangs (option -T). It revokes the process's communicators, which makes
/// the blocked calls return and leaves the handles valid for the threads that hold them. If even
/// that does not help, it ends the process.
class Watchdog {
 public:
  /// With a timeout of 0 it never fires, and starts no thread. The communicators must outlive the
  /// watchdog.
  Watchdog(int timeout_s, std::vector<ncclComm_t> comms);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Starts the time of the measurement named `what`.
  void Arm(std::string what);
  void Disarm();

  /// Whether a measurement took too long.
  // Acquire, with the release in the watchdog: who sees it true sees why a call has failed.
  bool fired() const { return fired_.load(std::memory_order_acquire); }

 private:
  void Watch();

  const int timeout_s_;
  std::vector<ncclComm_t> comms_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool armed_ = false;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point deadline_;
  std::string what_;
  std::atomic<bool> fired_{false};
  std::thread thread_;
};

}  // namespace harmonaize::perf
