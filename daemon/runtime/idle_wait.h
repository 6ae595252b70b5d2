#pragma once

#include <cstdint>
#include <optional>

#include "src/base/pause.h"
#include "src/base/wait_estimate.h"

namespace harmonaize::daemon {

/// Decides how an idle thread waits: it looks for work for as long as that pays, judged by the
/// length of recent waits, and then sleeps. Waits for different things are learnt separately.
/// Thread: one.
class IdleWait {
 public:
  enum class For { kTenants, kWorkers, kNetwork };
  struct Circumstances {
    For awaited = For::kTenants;
    uint64_t wake_up_ns = 0;                 ///< As in WaitEstimate::BeginWait.
    uint32_t sleepers = kSleepersOnOneHost;  ///< As in WaitEstimate::BeginWait.
    /// Fixed time to look, in microseconds; negative: the learnt time.
    int64_t look_us = -1;
    bool crowded = false;  ///< Other threads want the processor.
  };

  bool begun() const { return since_ns_ != 0; }
  void Begin(uint64_t now_ns, const Circumstances& circumstances);
  /// Pauses a little. Returns false, without a pause, when it is time to sleep.
  bool Look(uint64_t now_ns);
  /// Number of times that Look has paused since the wait began.
  int looks() const { return looks_; }
  /// Ends the wait, if one has begun: there is something to do.
  void End();

 private:
  WaitEstimate estimates_[3];  ///< By what is awaited.
  WaitEstimate* estimate_ = nullptr;
  uint64_t since_ns_ = 0;  ///< When the wait began; 0: no wait has begun.
  uint64_t look_until_ns_ = 0;
  int looks_ = 0;
  bool slept_ = false;
  std::optional<Pacer> pacer_;
};

}  // namespace harmonaize::daemon
