#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace harmonaize::daemon {

/// An operation that waits for ranks, for the operator and for late notices.
struct WaitingOperation {
  std::string operation;  ///< "AllReduce #12", "Send 0 -> 1".
  double for_seconds = 0;
  std::vector<int> missing_ranks;
};

/// The operations that wait in a communicator. Only the first few are listed, as a tenant may have
/// tens of thousands.
struct WaitingOperations {
  /// The most operations that are listed.
  static constexpr size_t kMostListed = 16;
  /// The most missing ranks that are listed of one operation.
  static constexpr size_t kMostRanks = 64;

  /// Counts an operation that waits. Returns true if it is to be listed.
  bool MayList() {
    if (listed.size() < kMostListed) return true;
    ++not_listed;
    return false;
  }

  std::vector<WaitingOperation> listed;
  size_t not_listed = 0;
};

}  // namespace harmonaize::daemon
