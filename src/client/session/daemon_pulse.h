#pragma once

#include <cstdint>
#include <mutex>

#include "src/ipc/session_segment.h"

namespace harmonaize {

/// How long a daemon may leave a sign unanswered before it counts as lost, in nanoseconds: what
/// HARMONAIZE_DAEMON_TIMEOUT says in seconds, 30 s by default. UINT64_MAX where that is 0: for
/// ever.
uint64_t DaemonTimeoutNanoseconds();

/// Tells a daemon that works, or waits for a rank, from one that is stopped or stuck: whoever waits
/// for long leaves a sign in the session's segment, which the daemon's engine answers. Thread safe.
class DaemonPulse {
 public:
  enum class Finding {
    kAlive,
    kRing,    ///< A sign was left: the caller rings the doorbell.
    kSlow,    ///< Unanswered for some seconds; said once.
    kSilent,  ///< Unanswered for DaemonTimeoutNanoseconds.
  };
  Finding Look(SessionHeader* header, uint64_t now_ns);

 private:
  std::mutex mutex_;
  uint64_t asked_at_ns_ = 0;
  bool said_slow_ = false;
};

}  // namespace harmonaize
