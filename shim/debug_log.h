#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "src/base/log.h"

/// \file
/// NCCL_DEBUG and its companions, as NCCL's users know them, for the lines of src/base/log.h:
///
/// - NCCL_DEBUG: VERSION (one line with the version, of rank 0), WARN, INFO, ABORT (as INFO),
///   TRACE. Not set: only what a user must not miss (a rank that others wait for), on standard
///   error.
/// - NCCL_DEBUG_SUBSYS: comma-separated INIT, COLL, P2P, SHM, NET, GRAPH, TUNING, ENV, ALLOC, CALL,
///   ALL, for lines of INFO and finer; with ^ in front all but these. Not set: INIT, ENV.
/// - NCCL_DEBUG_FILE: a path in which %h stands for the host and %p for the process. Not set:
///   standard output.
/// - NCCL_DEBUG_TIMESTAMP_LEVELS, NCCL_DEBUG_TIMESTAMP_FORMAT: see line_time.h.
///
/// A line is `host:process:thread [rank] [harmonaize] LEVEL text`, with - for an unknown rank. What
/// people look for in the logs of NCCL, the beginning and the end of communicators and the calls,
/// has NCCL's own shape: `host:process:thread [device] NCCL INFO text`.

namespace harmonaize::shim {

/// Reads the variables, again when it has been called before, and installs the sink. A file that
/// cannot be opened counts as not set. Thread: any.
void ReadDebugEnvironment() noexcept;

/// Sets the rank in the lines that the calling thread logs from here on; negative: the one in RANK.
void SetLogRank(int rank);

/// Writes a line as NCCL does, whether or not it is enabled. No newline.
void LogTextAsNccl(int device, std::string_view text) noexcept;

/// Writes a line of level INFO as NCCL does, where it is enabled.
template <typename... Args>
void LogAsNccl(int device, LogSubsystem subsystem, fmt::format_string<Args...> format,
               Args&&... args) {
  if (!LogEnabled(LogLevel::kInfo, subsystem)) return;
  LogTextAsNccl(device, fmt::format(format, std::forward<Args>(args)...));
}

/// Prints the version line once, if NCCL_DEBUG asks for it: below INFO only at rank 0, as NCCL
/// does.
void ShowVersionOnce(int rank, int device);

}  // namespace harmonaize::shim
