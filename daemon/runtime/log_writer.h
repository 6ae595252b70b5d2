#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "daemon/runtime/log_queue.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Writes lines on a thread of its own, so that no other thread waits for the reader of the log.
/// Every line is clean (CleanText) when it is written, whatever it was when it was logged.
///
/// A writer is never destroyed: its thread may wait in `write` for as long as the process lives.
class LogWriter {
 public:
  /// Starts a writer that calls `write` on its thread, with one line after the other. `write` may
  /// take its time, and must not throw. Returns kSystemError if no thread can be started.
  static Result<LogWriter*> Start(const LogConfig& config,
                                  std::function<void(const LogLine&)> write);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Adds a line. Waits for nothing but other callers. A line for which there is no memory is
  /// counted as missing. Thread: any.
  void Add(LogLevel level, std::string_view line, const TenantIdentity* tenant) noexcept;
  /// Waits until all added lines, and the numbers of missing ones, are written. Returns false if
  /// that takes longer than `within`. Thread: any.
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
