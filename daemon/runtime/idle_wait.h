#pragma once

#include <cstdint>
#include <optional>

#include "src/base/pause.h"
#include "src/base/wait_estimate.h"

namespace harmonaize::daemon {

/// What a thread that found nothing to do does: it looks on for as long as that pays, by what such
/// waits took of late, and then sleeps. Waits for different things are learnt of separately. For
/// one thread.
class IdleWait {
 public:
  enum class For { kTenants, kWorkers, kNetwork };
  struct Circumstances {
    For awaited = For::kTenants;
    uint64_t wake_up_ns = 0;                 ///< As in WaitEstimate::BeginWait.
    uint32_t sleepers = kSleepersOnOneHost;  ///< The same.
    /// How long to look whatever was learnt, in microseconds; negative: by what was learnt.
    int64_t look_us = -1;
    bool crowded = false;  ///< Others want the processor.
  };

  bool begun() const { return since_ns_ != 0; }
  void Begin(uint64_t now_ns, const Circumstances& circumstances);
  /// Pauses a little. False, without a pause, when it is time to sleep.
  bool Look(uint64_t now_ns);
  /// How often Look has paused since the wait began.
  int looks() const { return looks_; }
  /// There is something to do, if a wait has begun.
  void End();

 private:
  WaitEstimate estimates_[3];  ///< By what is awaited.
  WaitEstimate* estimate_ = nullptr;
  uint64_t since_ns_ = 0;  ///< 0: there is something to do.
  uint64_t look_until_ns_ = 0;
  int looks_ = 0;
  bool slept_ = false;
  std::optional<Pacer> pacer_;
};

}  // namespace harmonaize::daemon
