#pragma once

#include "nccl.h"

namespace harmonaize::testing {

/// What all ranks of a communicator do over and over, in the same order, until it fails.
enum class Work {
  kSmall,       ///< All-reduces of some bytes, which go inline on one host.
  kStaged,      ///< All-reduces of heap memory, staged as a whole.
  kWindowed,    ///< All-reduces of heap memory, slice by slice through windows.
  kRegistered,  ///< All-reduces of registered memory.
  kMessages,    ///< Sends and receives around a ring, in groups.
  kStreams,     ///< Several operations at once on a host stream.
  kMixed,       ///< One collective of each kind after the other, in groups with messages.
  kSplits,      ///< Splits, and an all-reduce on each child.
};
inline constexpr int kWorks = 8;

/// What ranks wait in for a rank that does not come.
enum class Wait {
  kCollective,
  kWindowedCollective,
  kMessage,          ///< A receive from rank `quiet`.
  kWindowedMessage,  ///< A large send to rank `quiet`.
  kStream,           ///< A collective on a host stream.
  kSplit,
  kGrowth,
};
inline constexpr int kWaits = 7;

/// Does the work until it fails, and returns the failure. Returns ncclInternalError for a wrong
/// result.
ncclResult_t WorkUntilFailure(Work work, int rank, int ranks, ncclComm_t communicator);

/// Waits for rank `quiet`, and returns how that ends.
ncclResult_t WaitFor(Wait wait, int quiet, int ranks, ncclComm_t communicator);

}  // namespace harmonaize::testing
