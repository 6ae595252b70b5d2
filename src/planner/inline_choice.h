#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"
#include "src/planner/host_costs.h"

namespace harmonaize {

/// Properties of a host, beside its costs, that decide how long a collective takes there.
struct HostShape {
  int processors = 1;
  /// Workers of the daemon.
  int workers = 1;
  size_t last_level_bytes = size_t{32} << 20;
  /// Work, in bytes read and written, that justifies one more worker; see src/executor/host/cut.h.
  uint64_t share_bytes = uint64_t{256} << 10;
};

/// One collective of ranks that share a host, or a send and its receive.
struct HostOperation {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  /// Bytes of one block: count times the type's size.
  uint64_t block_bytes = 0;
  /// Whether all buffers are in registered memory, or all on the heap.
  bool registered = false;
};

/// Blocks that the daemon reads and writes for a collective: CountTraffic of the OneHost schedule,
/// in closed form.
struct BlockTraffic {
  uint64_t read = 0;
  uint64_t written = 0;
};
BlockTraffic OffloadTraffic(Collective collective, int ranks);

/// Predicts how long operations take, and chooses between two paths. On the inline path the ranks
/// do the work on a shared segment, or directly between registered buffers
/// (src/client/inline/inline_operation.h). On the offload path the daemon's workers do it. The
/// model adds up measured costs. It is good enough to find the size where the two paths cross, not
/// the time to a tenth. It assumes that the host is idle otherwise, and that memory serves every
/// processor at once.
class InlineChoice {
 public:
  /// Block sizes that Limit considers: the powers of two from the first to the last, in bytes.
  static constexpr uint64_t kSmallestBytes = 64;
  static constexpr uint64_t kLargestBytes = uint64_t{1} << 30;

  /// Requires: `costs` are Plausible.
  InlineChoice(const HostCosts& costs, const HostShape& shape) : costs_(costs), shape_(shape) {}

  const HostCosts& costs() const { return costs_; }
  const HostShape& shape() const { return shape_; }

  double InlineSeconds(const HostOperation& operation) const;
  double OffloadSeconds(const HostOperation& operation) const;

  /// Returns the largest block, in bytes, for which inline is predicted to be no slower: the last
  /// size before offload wins by more than a tenth. 0 if offload wins from the start, kLargestBytes
  /// if it never does.
  uint64_t Limit(Collective collective, int ranks, bool registered) const;

 private:
  /// Work of one rank on the inline path, in bytes.
  struct Work {
    double copied = 0;   ///< Copied from its own memory.
    double fetched = 0;  ///< Copied from other ranks' slots.
    double reduced = 0;  ///< Read and written by reductions.
    double own = 0;      ///< Bytes of its own buffers, however they move.
  };
  static Work WorkOf(const HostOperation& operation, bool at_root);

  double Seconds(const Work& work, bool beyond_cache) const;
  double SlotSeconds(const HostOperation& operation) const;
  double DirectSeconds(const HostOperation& operation) const;
  double InlineLatency(int ranks) const;
  double OffloadLatency(int ranks) const;
  double MappedSeconds(const HostOperation& operation, double bytes) const;
  bool BeyondCache(const HostOperation& operation) const;
  double StagingSeconds(const HostOperation& operation) const;
  double MemorySeconds(double bytes, double rate, bool beyond_cache) const;
  double Shares(double bytes) const;
  /// Returns how many ranks each processor has to serve.
  double Turns(int ranks) const;

  HostCosts costs_;
  HostShape shape_;
};

}  // namespace harmonaize
