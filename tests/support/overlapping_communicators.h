#pragma once

#include <gtest/gtest.h>

#include "nccl.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {

/// Two communicators of three ranks that have rank 1 in common: 'first' of ranks 0 and 1, and
/// 'last' of ranks 1 and 2. NULL stands for one that this rank does not belong to. What is late in
/// 'last' keeps 'first' waiting.
struct OverlappingCommunicators {
  OverlappingCommunicators(ncclComm_t world, int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "first";
    EXPECT_NCCL(ncclCommSplit(world, rank < 2 ? 0 : NCCL_SPLIT_NOCOLOR, rank, &first, &config));
    config.commName = "last";
    EXPECT_NCCL(ncclCommSplit(world, rank > 0 ? 0 : NCCL_SPLIT_NOCOLOR, rank, &last, &config));
  }

  /// Destroys both, and the communicator of all.
  void DestroyWith(ncclComm_t world) const {
    for (const ncclComm_t one : {first, last, world}) {
      if (one != nullptr) {
        EXPECT_NCCL(ncclCommDestroy(one));
      }
    }
  }

  ncclComm_t first = nullptr;
  ncclComm_t last = nullptr;
};

}  // namespace harmonaize::testing
