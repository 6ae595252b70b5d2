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

/// Name of the honest job, which nobody else may learn.
inline constexpr const char* kHonestName = "honest-secret";

/// A job of an honest user. Its ranks are processes of their own that carry out the same operations
/// in each round, in every possible way, and check every result. Two of them also send messages in
/// pipes. A visitor, another process, comes
/// again and again, makes a communicator of its own, uses it, and goes. Where there are several
/// hosts, the ranks are on them in turns, and another visit makes a communicator over all hosts.
/// Failures are noted among the findings.
class HonestJob {
 public:
  static constexpr int kRanks = 3;

  /// Starts the job at the daemons, whose sockets are given by host; returns when the first rounds
  /// are done, or something has failed.
  HonestJob(std::vector<std::string> socket_paths, Field* field);
  ~HonestJob();
  HonestJob(const HonestJob&) = delete;
  HonestJob& operator=(const HonestJob&) = delete;

  /// Returns the number of rounds that all ranks have done.
  uint64_t rounds() const;
  uint64_t visits() const { return board_->visits.load(); }
  /// Returns the longest round, or visit, since the last call, in seconds.
  double TakeLongestRound() { return TakeSeconds(&board_->longest_round_ns); }
  double TakeLongestVisit() { return TakeSeconds(&board_->longest_visit_ns); }

  /// Lets the round under way, and the visit, end, and begins none.
  void Pause();
  void Resume() { board_->pause.store(false); }
  /// Ends the job in good order. Returns whether all processes ended well.
  bool Stop();

 private:
  /// State shared by the job's processes.
  struct Board {
    std::atomic<bool> pause{false};
    std::atomic<bool> stop{false};
    /// Rounds begun: rank 0 decides, so that the ranks pause after the same one.
    std::atomic<uint64_t> begun{0};
    std::atomic<bool> ended{false};  ///< No round will begin any more.
    std::array<std::atomic<uint64_t>, kRanks> done{};
    std::atomic<bool> visiting{false};
    std::atomic<uint64_t> visits{0};
    std::atomic<uint64_t> longest_round_ns{0};
    std::atomic<uint64_t> longest_visit_ns{0};
    std::atomic<bool> id_ready{false};
    ncclUniqueId id;
    /// Rank 1's, at which rank 0 knocks.
    std::atomic<bool> door_ready{false};
    UniqueId door;
    /// The number of the visit over hosts that `visit_id` is for, from 1.
    std::atomic<uint64_t> visit_with_id{0};
    ncclUniqueId visit_id;
  };
  friend class HonestRank;

  static double TakeSeconds(std::atomic<uint64_t>* nanoseconds) {
    return static_cast<double>(nanoseconds->exchange(0)) * 1e-9;
  }
  int Visit();
  /// A visit's processes, one after the other or together. Returns whether all ended well.
  bool VisitOnce(uint64_t visit);
  bool VisitOverHosts(uint64_t visit);
  /// The process of a visit over hosts that stands for this rank, at the host of that number.
  int VisitAs(int rank, uint64_t visit);
  /// In a process of the job: has it use the host's daemon.
  void UseDaemonOf(size_t host) const;

  const std::vector<std::string> socket_paths_;
  Field* const field_;
  SharedByProcesses<Board> board_;
  std::vector<pid_t> processes_;
};

}  // namespace harmonaize::testing
