#pragma once

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"
#include "plugins/nccl-tuner/tuner_abi.h"

namespace harmonaize::nccl_abi {

// The tuner plugin behind all versions of NCCL's interface. Nothing here fails or throws. Without
// a daemon, and where the provider has no advice, NCCL's own choices stay. Thread: any, one at a
// time for each context.

/// The name of the plugin in NCCL's log.
inline constexpr char kTunerName[] = "Harmonaize";

/// What NCCL says of a communicator.
struct TunedDescription {
  /// NCCL's hash of its id. 0: the interface does not tell it, and the profiler of this library is
  /// asked (TakeCommunicatorOfThread).
  uint64_t id = 0;
  size_t ranks = 0;
  size_t hosts = 0;
};

/// Asks the daemon for advice about a communicator, which takes milliseconds. The context is NULL
/// where there is none. Returns ncclSuccess.
ncclResult_t InitTuner(const TunedDescription& communicator, Logger logger,
                       void** context) noexcept;
/// Ignores what is no context. Returns ncclSuccess.
ncclResult_t FinalizeTuner(void* context) noexcept;

/// Multiplies NCCL's costs by what the provider advises, and sets the number of channels where that
/// is advised. Takes well under a microsecond, unless the daemons are about to change their advice:
/// see TuningReader. Returns ncclSuccess.
ncclResult_t AdjustCosts(void* context, int function, size_t bytes, TunerCosts costs,
                         int algorithms, int protocols, int* channels) noexcept;
/// Version 2's call, which has no costs to multiply: sets algorithm and protocol where one is
/// faster by far now than NCCL expects it to be. The daemon advises only communicators whose id is
/// known, and NCCL tells none with version 2, so this changes nothing today. Returns ncclSuccess.
ncclResult_t Choose(void* context, int function, size_t bytes, bool has_collnet, int* algorithm,
                    int* protocol, int* channels) noexcept;

}  // namespace harmonaize::nccl_abi
