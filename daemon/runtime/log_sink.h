#pragma once

#include "daemon/config/config.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Sends the log to standard error, from `config.level` up, by a thread of its own that it starts.
/// FlushLog waits for it for two seconds at most. Call it once.
Status InstallLogSink(const LogConfig& config);

}  // namespace harmonaize::daemon
