#pragma once

#include <cstdint>
#include <vector>

namespace harmonaize::daemon {

/// Which jobs have operations between hosts, now or lately (Session::job). For one thread; time is
/// passed in.
class JobActivity {
 public:
  /// An operation of this job starts. Whether another job has one under way, or had one less than
  /// kLatelyNs ago.
  bool Start(uint32_t job, uint64_t now_ns);
  /// The same job as at its start, whatever has become of that.
  void End(uint32_t job, uint64_t now_ns);

  /// Jobs that compute and send by turns may pause for so long.
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
