#pragma once

/// \file
/// NCCL_DEBUG and its companions, as NCCL's users know them, for the lines of src/base/log.h:
///
/// - NCCL_DEBUG: VERSION (one line with the versions), WARN, INFO, ABORT (as INFO), TRACE. Not set:
///   only what a user must not miss (a rank that others wait for), on standard error.
/// - NCCL_DEBUG_SUBSYS: comma-separated INIT, COLL, P2P, SHM, NET, GRAPH, TUNING, ENV, ALLOC, CALL,
///   ALL, for lines of INFO and finer; with ^ in front all but these. Not set: INIT, ENV.
/// - NCCL_DEBUG_FILE: a path in which %h stands for the host and %p for the process. Not set:
///   standard output.
///
/// A line is `host:process:thread [rank] [harmonaize] LEVEL text`, with - for an unknown rank.

namespace harmonaize::shim {

/// Reads the variables, again when it has been called before, and installs the sink. A file that
/// cannot be opened is as none. Thread safe.
void ReadDebugEnvironment() noexcept;

/// The rank in the lines that the calling thread logs from here on; negative: the one in RANK.
void SetLogRank(int rank);

/// Prints the version line, the first time that it is called, where NCCL_DEBUG asks for it.
void ShowVersionOnce();

}  // namespace harmonaize::shim
