#include "daemon/runtime/port_wait.h"

#include <chrono>
#include <utility>

namespace harmonaize::daemon {
namespace {

/// Time between two tries to listen at a port that another process has: short beside the time that
/// an operator needs to find that process.
constexpr std::chrono::seconds kTryPortEvery(5);

}  // namespace

Status PortWait::Begin(std::function<Status(bool again)> listen, LogLevel level,
                       const std::string& consequence) {
  const Status first = listen(false);
  if (first.code() != Code::kUnavailable) return first;
  Log(level, kLogInit, "{}; until it is free, {}, and the daemon tries again every {} s",
      first.message(), consequence, kTryPortEvery.count());
  return next_try_.Start(kTryPortEvery, [this, listen = std::move(listen)] {
    const Status status = listen(true);
    if (status.code() == Code::kUnavailable) return;
    if (!status.ok()) Log(LogLevel::kError, kLogInit, "{}", status.message());
    next_try_.Stop();
  });
}

}  // namespace harmonaize::daemon
