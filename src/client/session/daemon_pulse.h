#pragma once

#include <cstdint>
#include <mutex>

#include "src/ipc/session_segment.h"

namespace harmonaize {

/// Returns how long a daemon may leave a sign unanswered before it counts as lost, in nanoseconds:
/// the seconds of HARMONAIZE_DAEMON_TIMEOUT, by default 30. UINT64_MAX if these are 0: for ever.
uint64_t DaemonTimeoutNanoseconds();

/// Tells a daemon that works, or waits for a rank, from one that is stopped or stuck. Threads that
/// wait for long leave a sign in the session's segment, which the daemon's engine answers. Thread:
/// any.
class DaemonPulse {
 public:
  enum class Finding {
    kAlive,
    kRing,    ///< A sign was left: the caller rings the doorbell.
    kSlow,    ///< The sign has been unanswered for some seconds; reported once.
    kSilent,  ///< The sign has been unanswered for DaemonTimeoutNanoseconds.
  };
  Finding Look(SessionHeader* header, uint64_t now_ns);

 private:
  std::mutex mutex_;
  uint64_t asked_at_ns_ = 0;
  bool said_slow_ = false;
};

}  // namespace harmonaize
