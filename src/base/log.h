#pragma once

#include <fmt/core.h>

#include <atomic>
#include <string_view>

namespace harmonaize {

enum class LogLevel : int { kError = 0, kWarning, kInfo, kDebug, kTrace };

/// Subject of a line, by NCCL's names for NCCL_DEBUG_SUBSYS. Bits, to be combined into a mask.
enum LogSubsystem : unsigned {
  kLogInit = 1,
  kLogCollective = 2,
  kLogPointToPoint = 4,
  kLogShared = 8,
  kLogNet = 16,
  kLogGraph = 32,
  kLogTuning = 64,
  kLogEnvironment = 128,
  kLogAllocation = 256,
  kLogCall = 512,
  kLogAll = ~0u,
};

/// Takes one finished line (no newline). Must not throw. Thread: any.
using LogSink = void (*)(LogLevel level, LogSubsystem subsystem, std::string_view line);

/// Waits until the lines that the sink took are written; returns false if it gave up. Thread: any.
using LogFlush = bool (*)();

/// Sets which lines are formatted, and the sink that gets them. The daemon installs a writer of its
/// own, the client one that follows NCCL_DEBUG; before that, lines up to kWarning go to standard
/// error. `flush` may be nullptr for a sink that writes at once. To be called before other threads
/// log.
void SetLog(LogLevel level, unsigned subsystem_mask, LogSink sink, LogFlush flush = nullptr);

/// Waits a limited time for lines that are not written yet; to be called before the process ends.
/// Returns false if some are not written: the reader of the log stands still, and would also block
/// others that write there.
bool FlushLog();

namespace log_settings {
extern std::atomic<int> threshold;
extern std::atomic<unsigned> enabled_subsystems;
}  // namespace log_settings

/// Returns whether a line would be seen. Cheap: one relaxed load, or two.
inline bool LogEnabled(LogLevel level, LogSubsystem subsystem) {
  if (static_cast<int>(level) > log_settings::threshold.load(std::memory_order_relaxed)) {
    return false;
  }
  // Errors and warnings are shown whatever the subsystem, as NCCL does.
  return level <= LogLevel::kWarning ||
         (log_settings::enabled_subsystems.load(std::memory_order_relaxed) & subsystem) != 0;
}

/// Formats a line and hands it to the sink, whether or not it is enabled.
void FormatLine(LogLevel level, LogSubsystem subsystem, fmt::string_view format,
                fmt::format_args args);

template <typename... Args>
void Log(LogLevel level, LogSubsystem subsystem, fmt::format_string<Args...> format,
         Args&&... args) {
  if (!LogEnabled(level, subsystem)) return;
  FormatLine(level, subsystem, format, fmt::make_format_args(args...));
}

}  // namespace harmonaize
