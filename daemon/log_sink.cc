#include "daemon/log_sink.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

constexpr const char* kLevelNames[] = {"error", "warning", "info", "debug", "trace"};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kTrace: return spdlog::level::trace;
  }
  return spdlog::level::info;
}

void Write(LogLevel level, LogSubsystem, std::string_view line) {
  // As an argument: what a tenant put into the text is not a format.
  spdlog::log(ToSpdlog(level), "{}", fmt::string_view(line.data(), line.size()));
}

}  // namespace

void InstallLogSink(const std::string& level) {
  int index = 0;
  while (index < 4 && level != kLevelNames[index]) ++index;
  const auto chosen = static_cast<LogLevel>(index);
  spdlog::set_default_logger(spdlog::stderr_color_mt("harmonaized"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e harmonaized[%P] %^%l%$ %v");
  spdlog::set_level(ToSpdlog(chosen));
  spdlog::flush_on(spdlog::level::trace);
  SetLog(chosen, kLogAll, &Write);
}

}  // namespace harmonaize::daemon
