#pragma once

#include "daemon/config/config.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Sends log lines of `config.level` and graver to standard error, on a thread that it starts.
/// FlushLog waits for that thread for two seconds at most. Requires: it has not been called before.
Status InstallLogSink(const LogConfig& config);

}  // namespace harmonaize::daemon
