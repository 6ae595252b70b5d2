#pragma once

#include <array>
#include <cstdint>

#include "src/base/collective.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

/// The terms by which the daemon carries out one operation of a job.
struct OperationTerms {
  int most_workers = 0;         ///< Of the daemon's, at a time; 0: all.
  bool sleeps_at_once = false;  ///< Workers do not look for more work behind it.
  double deadline_seconds = 0;  ///< 0: there is none.
  double percentile = 99;       ///< Percentage of operations that are to keep it.
};

/// The terms of one communicator's operations, those of the last one of each kind at hand. Thread:
/// engine.
class OperationTermsCache {
 public:
  /// Returns the terms of an operation (bytes as nccl-tests count them) by `granted`, which are the
  /// same in all calls until Clear.
  const OperationTerms& For(const CommunicatorTerms& granted, Collective collective,
                            uint64_t bytes) {
    Last& last = last_[static_cast<size_t>(collective)];
    if (!last.is_known || last.bytes != bytes) last = Make(granted, collective, bytes);
    return last.terms;
  }
  void Clear() { last_ = {}; }

 private:
  struct Last {
    bool is_known = false;
    uint64_t bytes = 0;
    OperationTerms terms;
  };
  static Last Make(const CommunicatorTerms& granted, Collective collective, uint64_t bytes);

  std::array<Last, kCollectiveCount> last_;  // by Collective
};

}  // namespace harmonaize::daemon
