#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl.h"
#include "tests/hostile/field.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {

/// What the honest job is called, which nobody else may learn.
inline constexpr const char* kHonestName = "honest-secret";

/// A job of an honest user: ranks that are processes of their own and carry out the same operations
/// in each round, in every way that there is, and look at every result; and a visitor, a process
/// that comes again and again, makes a communicator of its own, uses it, and goes.
///
/// What goes wrong is noted among the findings.
class HonestJob {
 public:
  static constexpr int kRanks = 3;

  /// Starts it; returns when the first rounds are done, or something has failed.
  explicit HonestJob(Field* field);
  ~HonestJob();
  HonestJob(const HonestJob&) = delete;
  HonestJob& operator=(const HonestJob&) = delete;

  /// Rounds that all ranks have done.
  uint64_t rounds() const;
  uint64_t visits() const { return board_->visits.load(); }
  /// The longest round, and visit, since this was asked last, in seconds.
  double TakeLongestRound() { return TakeSeconds(&board_->longest_round_ns); }
  double TakeLongestVisit() { return TakeSeconds(&board_->longest_visit_ns); }

  /// Lets the round under way, and the visit, come to their end, and begins none.
  void Pause();
  void Resume() { board_->pause.store(false); }
  /// Ends the job in good order. Whether all processes ended well.
  bool Stop();

 private:
  /// What the job's processes share.
  struct Board {
    std::atomic<bool> pause{false};
    std::atomic<bool> stop{false};
    /// Rounds that have been begun: rank 0 decides, so that the ranks pause after the same one.
    std::atomic<uint64_t> begun{0};
    std::atomic<bool> ended{false};  ///< None will be begun any more.
    std::array<std::atomic<uint64_t>, kRanks> done{};
    std::atomic<bool> visiting{false};
    std::atomic<uint64_t> visits{0};
    std::atomic<uint64_t> longest_round_ns{0};
    std::atomic<uint64_t> longest_visit_ns{0};
    std::atomic<bool> id_ready{false};
    ncclUniqueId id;
  };
  friend class HonestRank;

  static double TakeSeconds(std::atomic<uint64_t>* nanoseconds) {
    return static_cast<double>(nanoseconds->exchange(0)) * 1e-9;
  }
  int Visit();

  Field* const field_;
  SharedByProcesses<Board> board_;
  std::vector<pid_t> processes_;
};

}  // namespace harmonaize::testing
