#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "include/nccl.h"

namespace harmonaize::nccl_abi {

/// Levels of NCCL's log (NCCL_DEBUG), as NCCL numbers them.
enum class LogLevel : int { kNone = 0, kVersion, kWarning, kInfo, kAbort, kTrace };

/// Subsystems of NCCL's log (NCCL_DEBUG_SUBSYS), as NCCL numbers them.
enum LogSubsystem : unsigned long {
  kLogOfInit = 0x1,
  kLogOfNet = 0x10,
  kLogOfTuning = 0x40,
  kLogOfEnv = 0x80,
  kLogOfProfile = 0x4000,
};

/// The function by which a plugin writes into NCCL's log, as NCCL passes it to init. The format is
/// that of printf.
using Logger = void (*)(LogLevel level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);

/// Sets the function that Log calls; nullptr: none. NCCL has one log for a process, so the last one
/// that was set serves all plugins. Thread: any.
void SetLogger(Logger logger);

/// Writes a line into NCCL's log; nothing where NCCL has passed no function. Thread: any.
void WriteLog(LogLevel level, LogSubsystem subsystem, const std::string& text);

/// Formats a line with fmt and writes it into NCCL's log.
template <typename... Arguments>
void Log(LogLevel level, LogSubsystem subsystem, fmt::format_string<Arguments...> format,
         Arguments&&... arguments) {
  WriteLog(level, subsystem, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace harmonaize::nccl_abi
