#pragma once

#include <span>
#include <vector>

#include "src/base/looking.h"
#include "src/base/status.h"
#include "src/client/inline/inline_operation.h"
#include "src/client/inline/inline_quick.h"
#include "src/client/operation/operation.h"

namespace harmonaize {

/// Tries the inline path for operations that belong together. A thread keeps it from launch to
/// launch, so the steady state allocates nothing.
class InlineLaunch {
 public:
  /// Carries out `operations` from where TryQuickly has left them. `offloaded` gets those that the
  /// ranks have agreed to leave to the daemon, in order; all others are complete. Requires: each
  /// one's communicator has found it usable. Errors: a communicator broke meanwhile.
  ///
  /// Either all of them go inline or none is tried: an operation that waits for the daemon while
  /// others wait for ranks could close a circle. As soon as one has to go to the daemon, the
  /// undecided ones follow. Long waits are left to the daemon, which can report which rank is late
  /// and what has died. So the path withdraws after some milliseconds, and much sooner for a caller
  /// who does not expect to wait.
  Status Run(std::span<const Operation> operations, const QuickAttempt& attempt,
             std::vector<Operation>* offloaded);

 private:
  bool Admits(const Operation& operation);
  bool AllAdmitted(std::span<const Operation> operations);
  void StartAll(std::span<const Operation> operations);
  void ResumeAll(std::span<const Operation> operations, uint32_t done);
  Status AwaitAll();
  Status AdvanceUntilDone();
  static Status GiveUp(const InlineOperation& operation);
  bool AdvanceAll();
  Status Pause();
  void WithdrawAll();
  void SleepOn(InlineOperation& operation);
  void TellWait(const InlineOperation& operation);
  void TakeBackWait();
  uint64_t Progress() const;

  std::vector<InlineOperation> operations_;
  bool withdrawn_ = false;
  bool crowded_ = false;
  Looking looking_ = Looking::kAsItPays;
  uint64_t withdraw_after_ns_ = 0;
  // State of the wait under way.
  uint64_t progress_ = 0;
  int spins_ = 0;
  uint64_t waiting_since_ns_ = 0;
  const InlineOperation* told_ = nullptr;  ///< The daemon has been told that it waits.
};

}  // namespace harmonaize
