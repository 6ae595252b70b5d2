#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/harness/buffer.h"
#include "perf/harness/collective_spec.h"
#include "perf/harness/options.h"
#include "perf/harness/pattern.h"
#include "perf/harness/report.h"
#include "perf/harness/team.h"
#include "perf/harness/watchdog.h"
#include "src/base/status.h"

namespace harmonaize::perf {

/// One rank that a thread acts for.
struct Rank {
  int rank = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  Buffer send;
  Buffer recv;
  float alignment = 0;  ///< Operand of the untimed all-reduce before a measurement.
  ncclRedOp_t op = ncclSum;
};

/// The next measurement: everything of a row but the numbers.
struct Work {
  const TypeInfo* type;
  Operator op;
  int root;  ///< -1: the collective has none
  Layout layout;

  size_t send_bytes() const { return layout.send_count * type->size; }
  size_t recv_bytes() const { return layout.recv_count * type->size; }
  size_t larger_bytes() const { return std::max(send_bytes(), recv_bytes()); }
};

/// One thread of a benchmark with its ranks. All workers of a run call the same functions in the
/// same order, each from its own thread.
class Worker {
 public:
  Worker(const CollectiveSpec& spec, const Options& options, int thread, int total_ranks,
         std::vector<Rank>* ranks, Team* team, Watchdog* watchdog);

  /// Makes streams and buffers.
  Status Prepare();
  /// Called before the works of one type and operator, and after them.
  Status CreateOperators(const TypeInfo& type, Operator op);
  Status DestroyOperators(Operator op);
  /// Times one work, then checks it. Returns the same numbers in every worker.
  Result<Measurement> Measure(const Work& work, bool in_place);
  /// Undoes Prepare.
  Status Release();

 private:
  std::byte* SendPointer(Rank& rank, const Work& work, bool in_place, size_t shift) const;
  std::byte* RecvPointer(Rank& rank, const Work& work, bool in_place, size_t shift) const;
  Status Enqueue(const Work& work, bool in_place, int64_t iteration);
  Status EnqueueIteration(const Work& work, bool in_place, int64_t iteration);
  Status Wait();
  /// Lets all ranks start within the latency of one small operation of each other.
  Status AlignRanks();
  Status WarmUp(const Work& work, bool in_place);
  struct Times {
    double elapsed_s = 0;
    double enqueue_s = 0;
  };
  Result<Times> TimeIterations(const Work& work, bool in_place);
  void FillBuffers(const Work& work, bool in_place, uint64_t seed);
  Mismatches CheckRank(Rank& rank, Pattern& pattern, const Work& work, bool in_place);
  Result<double> CheckOnce(const Work& work, bool in_place, uint64_t seed);
  Pattern& PatternFor(const Work& work, uint64_t seed);
  /// Returns the call's error in words, or that the watchdog ended it.
  Status Explain(ncclResult_t result, ncclComm_t comm, const char* call) const;

  const CollectiveSpec& spec_;
  const Options& options_;
  const int thread_;
  const int total_ranks_;
  std::vector<Rank>& ranks_;
  Team& team_;
  Watchdog& watchdog_;
  std::optional<Pattern> pattern_;
  uint64_t measurements_ = 0;
};

}  // namespace harmonaize::perf
