#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/ipc/messages.h"

namespace harmonaize {

/// Waits, up to `timeout_ms` (-1: for ever), until a rank of the job gives this process a place,
/// and has the process belong to the job from now on. Returns nullopt if nobody has admitted it
/// yet: the next call goes on waiting, and the daemon keeps the process's turn for some seconds.
/// Errors: kInvalidUsage, with the daemon's reason, for a ticket that it refuses, and for a process
/// that belongs to another job. Thread: any; one at a time.
Result<std::optional<JoinJobReply>> JoinJob(std::string_view job, std::string_view ticket,
                                            int timeout_ms);

/// Returns the ticket in the file that HARMONAIZE_TICKET_FILE names. Errors: kInvalidUsage, with
/// the way out, unless the file is the caller's and nobody else may read it.
Result<std::string> TicketOfProcess();

}  // namespace harmonaize
