#pragma once

#include <string>

namespace harmonaize::daemon {

/// Sends the log to standard error through spdlog, from `level` ("error" ... "trace") up.
void InstallLogSink(const std::string& level);

}  // namespace harmonaize::daemon
