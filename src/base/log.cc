#include "src/base/log.h"

#include <cstdio>

namespace harmonaize {

namespace log_settings {
std::atomic<int> threshold{static_cast<int>(LogLevel::kWarning)};
std::atomic<unsigned> enabled_subsystems{kLogAll};
}  // namespace log_settings

namespace {

void WriteToStandardError(LogLevel, LogSubsystem, std::string_view line) {
  std::fprintf(stderr, "[harmonaize] %.*s\n", static_cast<int>(line.size()), line.data());
}

std::atomic<LogSink> current_sink{&WriteToStandardError};
std::atomic<LogFlush> current_flush{nullptr};

}  // namespace

void SetLog(LogLevel level, unsigned subsystem_mask, LogSink sink, LogFlush flush) {
  log_settings::threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  log_settings::enabled_subsystems.store(subsystem_mask, std::memory_order_relaxed);
  current_sink.store(sink == nullptr ? &WriteToStandardError : sink, std::memory_order_relaxed);
  current_flush.store(flush, std::memory_order_relaxed);
}

bool FlushLog() {
  const LogFlush flush = current_flush.load(std::memory_order_relaxed);
  return flush == nullptr || flush();
}

void FormatLine(LogLevel level, LogSubsystem subsystem, fmt::string_view format,
                fmt::format_args args) {
  current_sink.load(std::memory_order_relaxed)(level, subsystem, fmt::vformat(format, args));
}

}  // namespace harmonaize
