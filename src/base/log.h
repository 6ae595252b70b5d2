#pragma once

#include <fmt/format.h>

#include <string_view>

namespace harmonaize {

enum class LogLevel : int { kError = 0, kWarning, kInfo, kDebug, kTrace };

/// What a line is about; NCCL's names for NCCL_DEBUG_SUBSYS. Bits, to be or-ed into a mask.
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

/// Takes one finished line (no newline). Called from any thread; must not throw.
using LogSink = void (*)(LogLevel level, LogSubsystem subsystem, std::string_view line);

/// Decides what is formatted and who gets it. The daemon installs spdlog, the client NCCL_DEBUG;
/// until then lines up to kWarning go to standard error. Call before other threads log.
void SetLog(LogLevel level, unsigned subsystem_mask, LogSink sink);

/// Whether a line would be seen. Cheap: two relaxed loads.
bool LogEnabled(LogLevel level, LogSubsystem subsystem);

void LogLine(LogLevel level, LogSubsystem subsystem, std::string_view line);

template <typename... Args>
void Log(LogLevel level, LogSubsystem subsystem, fmt::format_string<Args...> format,
         Args&&... args) {
  if (!LogEnabled(level, subsystem)) return;
  LogLine(level, subsystem, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace harmonaize
