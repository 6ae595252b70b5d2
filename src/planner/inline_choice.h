#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/collective.h"
#include "src/planner/host_costs.h"

namespace harmonaize {

/// What else of a host decides how long a collective takes there.
struct HostShape {
  int processors = 1;
  /// Of the daemon.
  int workers = 1;
  size_t last_level_bytes = size_t{32} << 20;
  /// Work, in bytes read and written, that is worth one more worker; see src/executor/host/cut.h.
  uint64_t share_bytes = uint64_t{256} << 10;
};

/// One collective of ranks that share a host, or a send and its receive.
struct HostOperation {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  /// Of one block: count times the type's size.
  uint64_t block_bytes = 0;
  /// Whether all buffers are in registered memory, or all on the heap.
  bool registered = false;
};

/// Blocks that the daemon reads and writes for a collective: what CountTraffic says of the OneHost
/// schedule, in closed form.
struct BlockTraffic {
  uint64_t read = 0;
  uint64_t written = 0;
};
BlockTraffic OffloadTraffic(Collective collective, int ranks);

/// Predicts how long operations take on the inline path (the ranks do them on a shared segment,
/// src/client/inline/inline_operation.h; between registered buffers directly) and on the offload
/// path (the daemon's workers do), and chooses. The model is a sum of what was measured: good for
/// the place where the two cross, not to a tenth. It takes the host to be idle otherwise, and
/// memory to serve every processor at once.
class InlineChoice {
 public:
  /// The sizes of a block that are looked at: the powers of two from the first to the last.
  static constexpr uint64_t kSmallestBytes = 64;
  static constexpr uint64_t kLargestBytes = uint64_t{1} << 30;

  /// `costs` are Plausible.
  InlineChoice(const HostCosts& costs, const HostShape& shape) : costs_(costs), shape_(shape) {}

  const HostCosts& costs() const { return costs_; }
  const HostShape& shape() const { return shape_; }

  double InlineSeconds(const HostOperation& operation) const;
  double OffloadSeconds(const HostOperation& operation) const;

  /// Up to how many bytes of a block inline is predicted to be no slower: the last size before
  /// offload wins by more than a tenth. 0 when it does so from the start, kLargestBytes when it
  /// never does.
  uint64_t Limit(Collective collective, int ranks, bool registered) const;

 private:
  /// What one rank does on the inline path, in bytes.
  struct Work {
    double copied = 0;   ///< From its own memory.
    double fetched = 0;  ///< From other ranks' slots.
    double reduced = 0;  ///< Read and written.
    double own = 0;      ///< Of its own buffers, whatever else moves.
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
  /// How many of the ranks each processor has to serve.
  double Turns(int ranks) const;

  HostCosts costs_;
  HostShape shape_;
};

}  // namespace harmonaize
