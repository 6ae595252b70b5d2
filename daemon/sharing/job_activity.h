#pragma once

#include <cstdint>
#include <vector>

namespace harmonaize::daemon {

/// Knows which jobs have operations between hosts, now or lately (Session::job). Thread: one. Time
/// is passed in.
class JobActivity {
 public:
  /// Notes that an operation of this job starts. Returns whether another job has one under way, or
  /// had one less than kLatelyNs ago.
  bool Start(uint32_t job, uint64_t now_ns);
  /// Notes that an operation ends. Requires: `job` is the one that was passed to Start.
  void End(uint32_t job, uint64_t now_ns);

  /// Time, in nanoseconds, for which a job without operations counts: jobs that compute and send by
  /// turns may pause for as long.
  static constexpr uint64_t kLatelyNs = 2'000'000'000;

 private:
  struct Active {
    uint32_t job = 0;
    int under_way = 0;
    uint64_t seen_ns = 0;
  };
  Active* Of(uint32_t job);

  std::vector<Active> active_;
};

}  // namespace harmonaize::daemon
