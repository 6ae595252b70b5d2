#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace harmonaize::daemon {

/// Finds out whether a communicator's operations keep their deadline: the last ones, at the
/// percentile that the job has said. Thread: one.
class DeadlineWatch {
 public:
  /// The percentile of the last operations is beyond the deadline, or within it again.
  struct Change {
    bool met = false;
    double measured_seconds = 0;  ///< At the percentile, as if all had the last one's deadline.
  };

  /// Counts an operation that was to end in `deadline_seconds`, above 0. Returns a change, if there
  /// is one. `percentile` is from 0 to 100.
  std::optional<Change> Count(double seconds, double deadline_seconds, double percentile);

  uint64_t operations() const { return operations_; }  ///< That had a deadline.
  uint64_t missed() const { return missed_; }          ///< That took longer.

  /// Operations that are looked at: a percentile of 99 leaves two of them.
  static constexpr size_t kLooksAt = 256;
  /// Operations between two looks.
  static constexpr size_t kLooksEvery = 64;

 private:
  double AtPercentile(double percentile);

  std::vector<double> times_;  // of the last ones, each by its deadline; a ring
  std::vector<double> sorted_;
  size_t next_ = 0;
  uint64_t operations_ = 0;
  uint64_t missed_ = 0;
  bool met_ = true;
};

}  // namespace harmonaize::daemon
