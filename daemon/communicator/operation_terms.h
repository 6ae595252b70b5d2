#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

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

/// The terms of one communicator's operations, made once and looked up for each operation. Thread:
/// engine.
class OperationTermsTable {
 public:
  /// Returns the terms of an operation (bytes as nccl-tests count them) by what is granted now.
  const OperationTerms& For(const std::shared_ptr<const JobTerms>& granted,
                            std::string_view communicator, Collective collective, uint64_t bytes) {
    if (granted != granted_) Make(granted, communicator);
    const auto row = static_cast<size_t>(collective);
    size_t size = sizes_.size() - 1;
    while (bytes < sizes_[size]) --size;
    return terms_[row][size];
  }

 private:
  void Make(const std::shared_ptr<const JobTerms>& granted, std::string_view communicator);

  std::shared_ptr<const JobTerms> granted_;
  std::vector<uint64_t> sizes_;                                      // ascending from 0
  std::array<std::vector<OperationTerms>, kCollectiveCount> terms_;  // by the last size below
};

}  // namespace harmonaize::daemon
