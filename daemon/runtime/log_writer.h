#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "daemon/runtime/log_queue.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Writes lines on a thread of its own, so that no other thread waits for whoever takes the log.
/// Every line is clean (CleanText) when it is written, whatever it was when it was logged.
///
/// A writer is never destroyed: its thread may wait in `write` for as long as the process lives.
class LogWriter {
 public:
  /// `write` is called on the writer's thread, with one line after the other, and may take its
  /// time. It must not throw. kSystemError when no thread can be started.
  static Result<LogWriter*> Start(const LogConfig& config,
                                  std::function<void(const LogLine&)> write);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Any thread. Waits for nothing but other callers. A line for which there is no memory is
  /// counted as missing.
  void Add(LogLevel level, std::string_view line, const TenantIdentity* tenant) noexcept;
  /// Waits until what was added is written, and how much is missing. False when that takes longer
  /// than `within`. Any thread.
  bool Flush(std::chrono::milliseconds within);

 private:
  LogWriter(const LogConfig& config, std::function<void(const LogLine&)> write)
      : write_(std::move(write)), queue_(config) {}

  void Run();
  LogLine TakeNext();
  void WaitForMore(std::unique_lock<std::mutex>& lock);
  void Write(LogLine line);

  const std::function<void(const LogLine&)> write_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::condition_variable written_;
  LogQueue queue_;        // guarded by mutex_
  bool writing_ = false;  // guarded by mutex_
};

}  // namespace harmonaize::daemon
