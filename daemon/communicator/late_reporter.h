#pragma once

#include <cstdint>

#include "daemon/communicator/collective_window.h"
#include "daemon/communicator/pair_matcher.h"
#include "daemon/communicator/waiting_operations.h"
#include "daemon/tenant/posted_operation.h"

namespace harmonaize::daemon {

class Communicator;
struct MatchedOperation;

/// Finds out which ranks of a communicator keep others waiting, and in which operations. Thread:
/// engine.
class LateReporter {
 public:
  /// Requires: all of them outlive the reporter.
  LateReporter(Communicator* communicator, const CollectiveWindow* window, PairMatcher* pairs)
      : communicator_(communicator), window_(window), pairs_(pairs) {}

  /// Tells the ranks that wait, and observers, which ranks have kept them waiting for longer than
  /// `late_after_ns`: ranks of this host, and peers of sends and receives on other hosts.
  void Report(uint64_t now_ns, uint64_t late_after_ns);
  /// Returns the operations that wait for ranks.
  WaitingOperations Waiting(uint64_t now_ns) const;

 private:
  void ReportCollective(uint64_t now_ns, uint64_t late_after_ns);
  void ReportFilling(uint64_t now_ns, uint64_t late_after_ns);
  void ReportPairs(uint64_t now_ns, uint64_t late_after_ns);
  WaitingOperation Describe(const MatchedOperation& operation, const PostedOperation& first_ready,
                            uint64_t now_ns) const;

  Communicator* const communicator_;
  const CollectiveWindow* const window_;
  PairMatcher* const pairs_;
};

// Texts of reports about late ranks.

/// Returns how long ago `since_ns` was, in seconds; 0 for a time to come.
double AgeInSeconds(uint64_t since_ns, uint64_t now_ns);
/// Returns a notice, such as "AllReduce #12 has waited 2.5 s for rank 3".
std::string WaitNotice(const PostedOperation& waits, uint64_t age_ns, const std::string& what_for);

}  // namespace harmonaize::daemon
