#include "src/base/log.h"

#include <atomic>
#include <cstdio>

namespace harmonaize {
namespace {

void WriteToStandardError(LogLevel, LogSubsystem, std::string_view line) {
  std::fprintf(stderr, "[harmonaize] %.*s\n", static_cast<int>(line.size()), line.data());
}

std::atomic<int> threshold{static_cast<int>(LogLevel::kWarning)};
std::atomic<unsigned> enabled_subsystems{kLogAll};
std::atomic<LogSink> current_sink{&WriteToStandardError};

}  // namespace

void SetLog(LogLevel level, unsigned subsystem_mask, LogSink sink) {
  threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  enabled_subsystems.store(subsystem_mask, std::memory_order_relaxed);
  current_sink.store(sink == nullptr ? &WriteToStandardError : sink, std::memory_order_relaxed);
}

bool LogEnabled(LogLevel level, LogSubsystem subsystem) {
  if (static_cast<int>(level) > threshold.load(std::memory_order_relaxed)) return false;
  // Errors and warnings are shown whatever the subsystem, as NCCL does.
  return level <= LogLevel::kWarning ||
         (enabled_subsystems.load(std::memory_order_relaxed) & subsystem) != 0;
}

void LogLine(LogLevel level, LogSubsystem subsystem, std::string_view line) {
  current_sink.load(std::memory_order_relaxed)(level, subsystem, line);
}

}  // namespace harmonaize
