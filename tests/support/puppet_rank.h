#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "nccl.h"
#include "src/base/file_descriptor.h"
#include "tests/support/endless_work.h"

namespace harmonaize::testing {

/// One thing that a puppet is to do. It has a communicator, `current`, and may have one that is to
/// take its place, `next`.
enum class Act {
  kMakeId,      ///< Makes a unique id.
  kMakeGrowId,  ///< Makes an id by which `current` grows.
  kJoin,        ///< Makes `next` by an id, as `rank` of `ranks`.
  kJoinGrowth,  ///< Makes `next` by an id for a growth, likewise.
  kGrow,        ///< Makes `next` of `current`, with `ranks`.
  kShrink,      ///< Makes `next` of `current`, without `excluded`.
  kSplit,       ///< Makes `next` of all ranks of `current`.
  kSum,         ///< Sums over the `ranks` of `next`, or else of `current`, and checks the sum.
  kWork,        ///< Works on `current` until that fails.
  kWait,        ///< Waits on `current` for the rank `quiet`.
  kRevoke,      ///< Revokes `current`.
  kTakeNext,    ///< Ends `current`; `next` takes its place.
  kDropNext,    ///< Aborts `next`, if there is one.
  kEnd,         ///< Ends both.
};

/// What a puppet is told. One packet on a socket.
struct Command {
  static constexpr int kMostExcluded = 32;

  Act act = Act::kEnd;
  ncclUniqueId id{};
  int rank = 0;
  int ranks = 0;
  bool aborts = false;  ///< kTakeNext and kEnd: ends by an abort. kShrink: NCCL_SHRINK_ABORT.
  Work work = Work::kSmall;
  Wait wait = Wait::kCollective;
  int quiet = 0;
  int revokes_after_us = -1;  ///< kWork: another thread revokes `current` then; -1: it does not.
  int elements = 1;
  int seed = 0;
  int excluded_count = 0;
  std::array<int, kMostExcluded> excluded{};
};

/// What it answers.
struct Outcome {
  ncclResult_t result = ncclSuccess;
  ncclUniqueId id{};
  std::array<char, 400> error{};  ///< ncclGetLastError, where it failed.
};

/// A rank in a process of its own that does what the test tells it, one thing at a time.
class PuppetRank {
 public:
  /// Starts the process, which uses the daemon at this socket.
  explicit PuppetRank(const std::string& socket_path);
  /// Kills the process, if it is still there.
  ~PuppetRank();
  PuppetRank(const PuppetRank&) = delete;
  PuppetRank& operator=(const PuppetRank&) = delete;

  pid_t process() const { return process_; }
  /// Tells it what to do. Requires: it has answered all before.
  void Tell(const Command& command);
  /// Waits for the answer; nullopt if it has not come in time, or the process has ended.
  std::optional<Outcome> Answer(std::chrono::seconds within);
  bool owes_answer() const { return owes_answer_; }
  /// Sends SIGKILL, and does not wait for the end.
  void Kill();
  void Stop() const;
  void GoOn() const;
  /// Waits for the end of the process, which Kill has begun.
  void AwaitEnd();

 private:
  FileDescriptor channel_;
  pid_t process_ = -1;
  bool owes_answer_ = false;
};

}  // namespace harmonaize::testing
