#include "daemon/runtime/log_sink.h"

#include <fcntl.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "daemon/runtime/log_tenant.h"
#include "daemon/runtime/log_writer.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using OneThreadsTerminal = spdlog::sinks::ansicolor_sink<spdlog::details::console_nullmutex>;

/// Names of the levels in the configuration, by LogLevel.
constexpr const char* kLevelNames[] = {"error", "warning", "info", "debug", "trace"};

/// Longest time, in milliseconds, that FlushLog waits for the log to be written. systemd kills a
/// service that takes longer than 90 s to stop, so there is time for it.
constexpr std::chrono::milliseconds kFlushWithin(2000);

// Neither is ever destroyed: threads may log, and the writer may write, until the process is gone.
LogWriter* writer = nullptr;
spdlog::logger* logger = nullptr;

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

void Add(LogLevel level, LogSubsystem, std::string_view line) {
  writer->Add(level, line, LogFor::Tenant());
}

bool Flush() {
  return writer->Flush(kFlushWithin);
}

/// Writes one line, on the writer's thread. spdlog adds the time at which the line was logged, and
/// colours on terminals.
void Write(const LogLine& line) {
  logger->log(line.at, spdlog::source_loc{}, ToSpdlog(line.level), line.text);
}

/// Opens a stream of the writer's own. A write that stands still holds the stream's lock, and the
/// end of the process takes the lock of `stderr`. If standard error is closed the log goes nowhere.
FILE* OwnStandardError() {
  const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return fd < 0 ? fopen("/dev/null", "we") : fdopen(fd, "w");
}

}  // namespace

Status InstallLogSink(const LogConfig& config) {
  int index = 0;
  while (index < 4 && config.level != kLevelNames[index]) ++index;
  const auto chosen = static_cast<LogLevel>(index);
  FILE* const file = OwnStandardError();
  if (file == nullptr) return ErrnoError(errno, "cannot open standard error for the log");
  logger = new spdlog::logger(
      "harmonaized", std::make_shared<OneThreadsTerminal>(file, spdlog::color_mode::automatic));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e harmonaized[%P] %^%l%$ %v");
  logger->set_level(ToSpdlog(chosen));
  logger->flush_on(spdlog::level::trace);
  HZ_ASSIGN_OR_RETURN(writer, LogWriter::Start(config, &Write));
  SetLog(chosen, kLogAll, &Add, &Flush);
  return Status::Ok();
}

}  // namespace harmonaize::daemon
