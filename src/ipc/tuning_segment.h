#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace harmonaize {

// What the daemon and the processes of an NCCL communicator share for its tuner. The daemon makes
// a TuningSegment for each communicator, and the processes map it for reading only. Each rank makes
// a TuningPosition and writes it; the daemon trusts nothing there.
//
// All ranks of a communicator have to choose alike, call by call. NCCL asks the tuner the same
// questions in the same order at all ranks, so a call's number means the same everywhere, and a
// table begins at a call's number (src/ipc/tuning_reader.h).

/// Collectives that are tuned, as NCCL numbers them (ncclFunc_t).
enum NcclFunction : int16_t {
  kNcclBroadcast = 0,
  kNcclReduce,
  kNcclAllGather,
  kNcclReduceScatter,
  kNcclAllReduce,
};
inline constexpr int kTunedFunctions = kNcclAllReduce + 1;
/// Algorithms, as NCCL numbers them in its cost table.
enum NcclAlgorithm : int16_t {
  kNcclTree = 0,
  kNcclRing,
  kNcclCollnetDirect,
  kNcclCollnetChain,
  kNcclNvls,
  kNcclNvlsTree,
  kNcclPat,
};
inline constexpr int kTunedAlgorithms = kNcclPat + 1;
/// Protocols, as NCCL numbers them in its cost table.
enum NcclProtocol : int16_t {
  kNcclLl = 0,
  kNcclLl128,
  kNcclSimple,
};
inline constexpr int kTunedProtocols = kNcclSimple + 1;
/// Sizes that a table tells apart: powers of four from kLeastTunedBytes on, 1 GiB the last.
inline constexpr int kTunedSizes = 12;
/// The first of these sizes, in bytes as NCCL tells them to tuners.
inline constexpr uint64_t kLeastTunedBytes = 256;

/// Returns the number of the size that is nearest by ratio.
constexpr int TunedSizeOf(uint64_t bytes) {
  int size = 0;
  // Sizes are a factor of 4 apart, so the bound between two of them is twice the smaller one.
  for (uint64_t bound = 2 * kLeastTunedBytes; size < kTunedSizes - 1 && bytes >= bound;
       bound *= 4) {
    ++size;
  }
  return size;
}

/// What the provider says of one collective at one size.
struct TuningCell {
  /// NCCL's predicted time is multiplied by this, by algorithm and protocol. 1: links carry what
  /// NCCL expects.
  float factors[kTunedAlgorithms][kTunedProtocols];
  /// Most channels that are of use; 0: as many as NCCL likes.
  int32_t channels;
  /// The algorithm and the protocol to take where NCCL tells no costs; -1: NCCL's own choice.
  int16_t algorithm;
  int16_t protocol;
};

struct TuningTable {
  TuningCell cells[kTunedFunctions][kTunedSizes];
};

/// Stands for a call that never comes.
inline constexpr uint64_t kNoCall = UINT64_MAX;

struct TuningSegment {
  /// The first call that has to wait until the daemon has settled from which call on another table
  /// holds; kNoCall: none.
  alignas(64) std::atomic<uint64_t> held_from;
  /// The table that began last.
  std::atomic<uint32_t> newest;
  /// The first call of each table. A call before that of the newest one goes by the other table.
  std::atomic<uint64_t> begins[2];
  alignas(64) TuningTable tables[2];
};

/// Calls after which a rank leaves another checkpoint.
inline constexpr uint64_t kCallsBetweenCheckpoints = 32;
/// Checkpoints of a rank that are kept. Ranks that are further apart than these are not compared.
inline constexpr size_t kTuningCheckpoints = 5;

/// Where a rank is. The rank writes it.
struct alignas(64) TuningPosition {
  std::atomic<uint64_t> calls;  ///< Calls that have begun.
  /// Not 0 once the rank waited in vain for the daemon. It stays with its table from then on.
  std::atomic<uint64_t> gave_up;
  /// Digests of all calls up to a multiple of kCallsBetweenCheckpoints: that multiple's number in
  /// the upper half, the digest in the lower one. Equal numbers with different digests tell of
  /// ranks that do not ask alike. 0: none.
  std::atomic<uint64_t> checkpoints[kTuningCheckpoints];
};
static_assert(sizeof(TuningPosition) == 64);

/// Bytes of a rank's memory with its TuningPosition: the page that the daemon maps.
inline constexpr size_t kTuningPositionBytes = 4096;

}  // namespace harmonaize
