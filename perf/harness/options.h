#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/harness/buffer.h"
#include "perf/harness/data_type.h"
#include "perf/harness/operator.h"
#include "perf/harness/team.h"
#include "src/base/status.h"

namespace harmonaize::perf {

/// Most ranks of a process (threads times ranks a thread), and of the whole job.
inline constexpr int kMostRanks = 1 << 20;

/// The user's options; the names are those of nccl-tests' options.
struct Options {
  int threads = 1;
  int ranks_per_thread = 1;
  uint64_t min_bytes = 32 << 20;
  uint64_t max_bytes = 32 << 20;
  uint64_t step_bytes = 1 << 20;
  uint64_t step_factor = 1;
  int iterations = 20;
  int aggregated = 1;
  int warmup = 5;
  int cycles = 1;  ///< 0: forever
  bool parallel_init = false;
  int checks = 1;
  double error_bound = 0;
  std::vector<Operator> operators{Operator::kSum};
  std::vector<const TypeInfo*> types;
  int root = 0;  ///< -1: all
  bool blocking = false;
  bool null_stream = false;
  int timeout_s = 0;  ///< 0: none
  bool report_cpu_time = false;
  Combine average = Combine::kAverage;
  Memory memory = Memory::kHeap;
  std::string output_file;

  int ranks_per_process() const { return threads * ranks_per_thread; }
};

/// Parses a size: "32M" -> 33554432. Suffixes K, M and G (powers of 1024, either case), fractions
/// allowed.
Result<uint64_t> ParseSize(const std::string& text);

/// Result of ParseOptions: run with `options`, or exit with `exit_code` (help was printed, or an
/// error).
struct ParsedOptions {
  bool run = false;
  int exit_code = 0;
  Options options;
};

/// Reads the command line. `reduces` and `rooted` describe the collective, for the help text.
ParsedOptions ParseOptions(const std::string& program, bool reduces, bool rooted, int argc,
                           char** argv);

}  // namespace harmonaize::perf
