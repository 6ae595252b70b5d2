#pragma once

#include <cstdint>

namespace harmonaize::daemon {

class CommunicatorRegistry;

/// Has one communicator after the other report the ranks that are late. Thread: engine.
class LateRounds {
 public:
  explicit LateRounds(const CommunicatorRegistry& communicators) : communicators_(communicators) {}

  /// Has communicators report, for a limited time. The next call goes on where the time was up.
  void Report(uint64_t now_ns, uint64_t late_after_ns);

 private:
  const CommunicatorRegistry& communicators_;
  uint64_t reported_ = 0;  ///< The communicator that has reported last, by Communicator::id().
};

}  // namespace harmonaize::daemon
