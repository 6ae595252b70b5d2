#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "nccl.h"
#include "tests/support/reference.h"

namespace harmonaize::testing {

inline constexpr int kProgrammeRanks = 5;

/// One operation of a programme: a case on one of the communicators.
struct PlannedOperation {
  int communicator = 0;
  Case c;
  bool registered = false;
  uint64_t seed = 0;
};

/// Random operations, in random groups, on random communicators. All ranks derive the same
/// programme from one seed.
struct Programme {
  std::vector<std::set<int>> members;                 // of each communicator
  std::vector<std::vector<PlannedOperation>> groups;  // those of one group start together
  std::vector<bool> asynchronous;                     // by group: on a host stream
};

struct ProgrammeOptions {
  uint32_t seed = 0;
  int operations = 1000;
  /// Whether to use only types and operators whose results no order of reducing rounds.
  bool exact = false;
};
Programme MakeProgramme(const ProgrammeOptions& options);

/// Runs a programme on one of kProgrammeRanks ranks, which sometimes comes late, and checks every
/// result. Failures are gtest's.
void RunProgramme(const Programme& programme, int rank, ncclComm_t world);

/// Returns HARMONAIZE_TEST_SEED, or else a constant.
uint32_t ProgrammeSeed();

}  // namespace harmonaize::testing
