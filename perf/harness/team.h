#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "perf/harness/bootstrap.h"
#include "src/base/status.h"

namespace harmonaize::perf {

/// Ways to combine the values of all threads of all processes. The first four have the values of
/// nccl-tests' option -a.
enum class Combine { kFirst = 0, kAverage = 1, kMinimum = 2, kMaximum = 3, kSum = 4 };

/// All threads of all processes of a benchmark. Each thread calls the same functions in the same
/// order. Thread: any.
class Team {
 public:
  /// Makes a team with `threads` threads in each process. The bootstrap must outlive the team, and
  /// only the team may use it from now on.
  Team(Bootstrap* bootstrap, int threads) : bootstrap_(bootstrap), threads_(threads) {}

  /// Returns the combination of all threads' values to every thread. kFirst is the value of thread
  /// 0 of process 0. Errors: a process has gone or a thread has called Fail.
  Result<double> Reduce(int thread, double value, Combine combine);

  /// Returns when all threads of all processes have called it.
  Status Barrier(int thread) { return Reduce(thread, 0, Combine::kSum).status(); }

  /// Notes that a thread will make no further calls: all waiting and later calls of this process
  /// return `status`. The first failure counts.
  void Fail(const Status& status);

 private:
  Result<double> ReduceOverProcesses(double value, Combine combine);

  Bootstrap* bootstrap_;
  int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  uint64_t round_ = 0;
  double accumulator_ = 0;
  double result_ = 0;
  Status failure_;
};

}  // namespace harmonaize::perf
