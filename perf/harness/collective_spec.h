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

/// All that the harness has to know about a collective. A benchmark program is one of these and a
/// main() that hands it to RunBenchmark.
struct CollectiveSpec {
  const char* program;  ///< "all_reduce_perf"
  const char* call;     ///< "ncclAllReduce", for error messages
  bool reduces = false;
  bool rooted = false;
  /// Whether NCCL says what the operation gives in place. If not it is timed there and not checked.
  bool in_place_defined = true;
  /// For `count` elements in the larger buffer.
  Layout (*layout)(size_t count, size_t element_bytes, int ranks);
  ncclResult_t (*enqueue)(const Call& call);
  /// busbw / algbw.
  double (*bus_factor)(int ranks);
  /// Where the receive buffer's elements come from, on one rank.
  std::vector<Segment> (*expected)(int rank, int ranks, int root, const Layout& layout);
};

/// Parses the command line, measures, prints. Returns the exit status: 0, 1 for wrong results or
/// errors, 2 for a wrong command line.
int RunBenchmark(const CollectiveSpec& spec, int argc, char** argv);

}  // namespace harmonaize::perf
