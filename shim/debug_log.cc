#include "shim/debug_log.h"

#include <fmt/format.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "include/nccl.h"
#include "src/base/log.h"

namespace harmonaize::shim {
namespace {

enum class Verbosity { kUnset, kNone, kVersion, kWarn, kInfo, kTrace };

struct Settings {
  Verbosity verbosity = Verbosity::kUnset;
  FILE* file = nullptr;  ///< nullptr: the standard stream of the verbosity.
  std::string host;
  std::string environment_rank = "-";
};

std::mutex settings_mutex;
Settings& TheSettings() {
  // Never destroyed: other static objects may log while they go.
  static auto* const settings = new Settings;
  return *settings;
}

thread_local int log_rank = -1;
std::atomic<bool> version_shown{false};

Verbosity ParseVerbosity(const char* text) {
  struct Name {
    const char* text;
    Verbosity verbosity;
  };
  static constexpr std::array<Name, 5> kNames = {{{"VERSION", Verbosity::kVersion},
                                                  {"WARN", Verbosity::kWarn},
                                                  {"INFO", Verbosity::kInfo},
                                                  {"ABORT", Verbosity::kInfo},
                                                  {"TRACE", Verbosity::kTrace}}};
  if (text == nullptr || *text == '\0') return Verbosity::kUnset;
  for (const Name& name : kNames) {
    if (strcasecmp(name.text, text) == 0) return name.verbosity;
  }
  return Verbosity::kNone;
}

unsigned SubsystemNamed(const std::string& text) {
  struct Name {
    const char* text;
    unsigned bit;
  };
  static constexpr std::array<Name, 11> kNames = {{{"INIT", kLogInit},
                                                   {"COLL", kLogCollective},
                                                   {"P2P", kLogPointToPoint},
                                                   {"SHM", kLogShared},
                                                   {"NET", kLogNet},
                                                   {"GRAPH", kLogGraph},
                                                   {"TUNING", kLogTuning},
                                                   {"ENV", kLogEnvironment},
                                                   {"ALLOC", kLogAllocation},
                                                   {"CALL", kLogCall},
                                                   {"ALL", kLogAll}}};
  for (const Name& name : kNames) {
    if (strcasecmp(name.text, text.c_str()) == 0) return name.bit;
  }
  return 0;  // NCCL has subsystems that we do not have.
}

unsigned ParseSubsystems(const char* text) {
  if (text == nullptr) return kLogInit | kLogEnvironment;
  const bool all_but = *text == '^';
  std::string_view rest = text + (all_but ? 1 : 0);
  unsigned named = 0;
  while (!rest.empty()) {
    const size_t end = rest.find(',');
    named |= SubsystemNamed(std::string(rest.substr(0, end)));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return all_but ? ~named : named;
}

std::string HostName() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  const std::string_view text(name);
  return std::string(text.substr(0, text.find('.')));
}

std::string ExpandFileName(std::string_view pattern, const std::string& host) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') {
      name += host;
    } else if (next == 'p') {
      name += std::to_string(getpid());
    } else if (next == '%') {
      name += '%';
    } else {
      name += pattern[i];
      continue;
    }
    ++i;
  }
  return name;
}

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "ERROR";
    case LogLevel::kWarning: return "WARN";
    case LogLevel::kInfo: return "INFO";
    case LogLevel::kDebug:
    case LogLevel::kTrace: return "TRACE";
  }
  return "INFO";
}

void Write(const Settings& settings, std::string_view tag, std::string_view text) {
  FILE* file = settings.file;
  if (file == nullptr) file = settings.verbosity == Verbosity::kUnset ? stderr : stdout;
  const std::string rank = log_rank >= 0 ? std::to_string(log_rank) : settings.environment_rank;
  // One call, so that the lines of threads and processes on one terminal stay whole.
  const std::string line = fmt::format("{}:{}:{} [{}] [harmonaize] {} {}\n", settings.host,
                                       getpid(), syscall(SYS_gettid), rank, tag, text);
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

/// A failed call is the program's to tell, since it has the result. What nobody asked to hear is
/// shown only when there is no other way to learn of it.
bool IsWanted(const Settings& settings, LogLevel level, LogSubsystem subsystem) {
  switch (settings.verbosity) {
    case Verbosity::kUnset: return level == LogLevel::kError || subsystem != kLogCall;
    case Verbosity::kNone:
    case Verbosity::kVersion: return false;
    default: return true;
  }
}

void Sink(LogLevel level, LogSubsystem subsystem, std::string_view line) try {
  const std::lock_guard lock(settings_mutex);
  const Settings& settings = TheSettings();
  if (IsWanted(settings, level, subsystem)) Write(settings, LevelName(level), line);
} catch (...) {
  // A line that does not fit into memory is lost; its cause has been told by a result.
}

LogLevel LevelOf(Verbosity verbosity) {
  switch (verbosity) {
    case Verbosity::kInfo: return LogLevel::kInfo;
    case Verbosity::kTrace: return LogLevel::kTrace;
    case Verbosity::kUnset:
    case Verbosity::kWarn: return LogLevel::kWarning;
    default: return LogLevel::kError;
  }
}

/// The path in NCCL_DEBUG_FILE; "" when there is none, or nothing to write.
std::string FilePath(Verbosity verbosity, const std::string& host) {
  const char* pattern = secure_getenv("NCCL_DEBUG_FILE");
  if (pattern == nullptr || verbosity <= Verbosity::kVersion) return "";
  return ExpandFileName(pattern, host);
}

}  // namespace

void ReadDebugEnvironment() noexcept try {
  Settings fresh;
  fresh.verbosity = ParseVerbosity(secure_getenv("NCCL_DEBUG"));
  fresh.host = HostName();
  if (const char* rank = secure_getenv("RANK"); rank != nullptr) fresh.environment_rank = rank;
  const std::string path = FilePath(fresh.verbosity, fresh.host);
  const unsigned subsystems = ParseSubsystems(secure_getenv("NCCL_DEBUG_SUBSYS"));

  const std::lock_guard lock(settings_mutex);
  Settings& settings = TheSettings();
  // Closed first: the same file may be opened again, which empties it.
  if (settings.file != nullptr) std::fclose(settings.file);
  settings = std::move(fresh);
  if (!path.empty()) settings.file = std::fopen(path.c_str(), "we");
  SetLog(LevelOf(settings.verbosity), subsystems, &Sink);
} catch (...) {
  // Without memory for what the variables say, the log stays as it is.
}

void SetLogRank(int rank) {
  log_rank = rank;
}

void ShowVersionOnce() {
  if (version_shown.exchange(true, std::memory_order_relaxed)) return;
  const std::lock_guard lock(settings_mutex);
  const Settings& settings = TheSettings();
  if (settings.verbosity < Verbosity::kVersion) return;
  Write(settings, "VERSION",
        fmt::format("NCCL version {}.{}.{}, served by Harmonaize {}", NCCL_MAJOR, NCCL_MINOR,
                    NCCL_PATCH, HARMONAIZE_VERSION));
}

}  // namespace harmonaize::shim
