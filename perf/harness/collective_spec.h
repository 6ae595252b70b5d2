#pragma once

#include <cstddef>
#include <vector>

#include "include/nccl.h"
#include "perf/harness/layouts.h"
#include "perf/harness/verification.h"

namespace harmonaize::perf {

/// One call of a rank.
struct Call {
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  int rank;
  int ranks;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// A collective, as the harness knows it. A benchmark program is one of these and a main() that
/// passes it to RunBenchmark.
struct CollectiveSpec {
  const char* program;  ///< "all_reduce_perf"
  const char* call;     ///< "ncclAllReduce", for error messages
  bool reduces = false;
  bool rooted = false;
  /// Whether NCCL defines the operation in place. If not, it is timed in place but not checked.
  bool in_place_defined = true;
  /// Returns the layout for `count` elements in the larger buffer.
  Layout (*layout)(size_t count, size_t element_bytes, int ranks);
  ncclResult_t (*enqueue)(const Call& call);
  /// Returns busbw / algbw.
  double (*bus_factor)(int ranks);
  /// Returns the sources of the receive buffer's elements, on one rank.
  std::vector<Segment> (*expected)(int rank, int ranks, int root, const Layout& layout);
};

/// Parses the command line, measures and prints. Returns the exit status: 0, 1 for wrong results or
/// errors, 2 for a wrong command line.
int RunBenchmark(const CollectiveSpec& spec, int argc, char** argv);

}  // namespace harmonaize::perf
