#include "shim/debug_log.h"

#include <fmt/format.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "include/nccl.h"
#include "shim/line_time.h"
#include "shim/name_mask.h"
#include "src/base/log.h"
#include "src/base/own_descriptor.h"
#include "src/base/settings.h"

namespace harmonaize::shim {
namespace {

enum class Verbosity { kUnset, kNone, kVersion, kWarn, kInfo, kTrace };

struct Settings {
  Verbosity verbosity = Verbosity::kUnset;
  FILE* file = nullptr;  ///< nullptr: the standard stream of the verbosity.
  FileIdentity file_identity;
  std::string path;  ///< Path of `file`.
  LineTime time;
  std::string host;
  std::string environment_rank = "-";
};

std::mutex settings_mutex;
Settings& TheSettings() {
  // Never destroyed: other static objects may log during their destruction.
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

/// NCCL has further subsystems, whose names mean nothing here.
constexpr std::array<NamedBits, 11> kSubsystems = {{{"INIT", kLogInit},
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

unsigned ParseSubsystems(const char* text) {
  return text == nullptr ? kLogInit | kLogEnvironment : ParseNameMask(text, kSubsystems);
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

LineLevel LineLevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
    case LogLevel::kWarning: return kWarnLine;
    case LogLevel::kInfo: return kInfoLine;
    case LogLevel::kDebug:
    case LogLevel::kTrace: return kTraceLine;
  }
  return kInfoLine;
}

void OpenFile(const char* mode, Settings* settings) {
  settings->file = std::fopen(settings->path.c_str(), mode);
  if (settings->file == nullptr) return;
  settings->file_identity = FileIdentity::Of(fileno(settings->file));
}

/// Returns whether the program has closed the file, whose number may then stand for the program's
/// own file.
bool ClosedByOthers(const Settings& settings) {
  return settings.file != nullptr && !settings.file_identity.IsOf(fileno(settings.file));
}

/// Returns the stream to which lines go; nullptr for none.
FILE* Output(Settings* settings) {
  // The old stream is leaked: closing it would close the program's file.
  if (ClosedByOthers(*settings)) OpenFile("ae", settings);
  if (settings->file != nullptr) return settings->file;
  if (!settings->path.empty()) return nullptr;
  return settings->verbosity == Verbosity::kUnset ? stderr : stdout;
}

/// Writes a line; `rest` is the part after the time.
void WriteLine(Settings* settings, LineLevel level, std::string_view rest) {
  FILE* const file = Output(settings);
  if (file == nullptr) return;
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  // Written by one call, so that the lines of threads and processes on one terminal stay whole.
  const std::string line = fmt::format("{}{}\n", settings->time.Prefix(level, now), rest);
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

std::string WhoSpeaks(const Settings& settings) {
  return fmt::format("{}:{}:{}", settings.host, getpid(), syscall(SYS_gettid));
}

void WriteOurs(Settings* settings, LogLevel level, std::string_view text) {
  const std::string rank = log_rank >= 0 ? std::to_string(log_rank) : settings->environment_rank;
  WriteLine(settings, LineLevelOf(level),
            fmt::format("{} [{}] [harmonaize] {} {}", WhoSpeaks(*settings), rank, LevelName(level),
                        text));
}

void WriteAsNccl(Settings* settings, int device, std::string_view text) {
  WriteLine(settings, kInfoLine,
            fmt::format("{} [{}] NCCL INFO {}", WhoSpeaks(*settings), device, text));
}

/// Returns whether a line is shown. A failed call is left to the program to report, because it has
/// the result. Without NCCL_DEBUG a line is shown only if there is no other way to learn of it.
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
  Settings& settings = TheSettings();
  if (IsWanted(settings, level, subsystem)) WriteOurs(&settings, level, line);
} catch (...) {
  // A line that does not fit into memory is lost; a result has reported its cause.
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

/// Returns the path in NCCL_DEBUG_FILE; "" when there is none, or nothing to write.
std::string FilePath(Verbosity verbosity, const std::string& host) {
  const char* pattern = Setting("NCCL_DEBUG_FILE");
  if (pattern == nullptr || verbosity <= Verbosity::kVersion) return "";
  return ExpandFileName(pattern, host);
}

/// Returns the version as NCCL words it, with Harmonaize where NCCL names its CUDA.
std::string VersionText() {
  return fmt::format("NCCL version {}.{}.{}+harmonaize{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH,
                     HARMONAIZE_VERSION);
}

}  // namespace

void ReadDebugEnvironment() noexcept try {
  Settings fresh;
  fresh.verbosity = ParseVerbosity(Setting("NCCL_DEBUG"));
  fresh.host = HostName();
  fresh.time = LineTime::Parse(Setting("NCCL_DEBUG_TIMESTAMP_LEVELS"),
                               Setting("NCCL_DEBUG_TIMESTAMP_FORMAT"));
  if (const char* rank = secure_getenv("RANK"); rank != nullptr) fresh.environment_rank = rank;
  fresh.path = FilePath(fresh.verbosity, fresh.host);
  const unsigned subsystems = ParseSubsystems(Setting("NCCL_DEBUG_SUBSYS"));

  const std::lock_guard lock(settings_mutex);
  Settings& settings = TheSettings();
  // The file is closed first, because the same file may be opened again, which empties it.
  if (settings.file != nullptr && !ClosedByOthers(settings)) std::fclose(settings.file);
  settings = std::move(fresh);
  if (!settings.path.empty()) OpenFile("we", &settings);
  if (settings.file == nullptr) settings.path.clear();
  SetLog(LevelOf(settings.verbosity), subsystems, &Sink);
} catch (...) {
  // If there is no memory for the variables' values, the log stays as it is.
}

void SetLogRank(int rank) {
  log_rank = rank;
}

void LogTextAsNccl(int device, std::string_view text) noexcept try {
  const std::lock_guard lock(settings_mutex);
  WriteAsNccl(&TheSettings(), device, text);
} catch (...) {
  // A line that does not fit into memory is lost, as in Sink.
}

void ShowVersionOnce(int rank, int device) {
  const std::lock_guard lock(settings_mutex);
  Settings& settings = TheSettings();
  const bool in_info = settings.verbosity >= Verbosity::kInfo;
  if (settings.verbosity < Verbosity::kVersion || (!in_info && rank != 0)) return;
  if (version_shown.exchange(true, std::memory_order_relaxed)) return;
  if (in_info) {
    WriteAsNccl(&settings, device, VersionText());
  } else {
    WriteLine(&settings, kVersionLine, VersionText());
  }
}

}  // namespace harmonaize::shim
