#pragma once

#include "src/ipc/messages.h"

namespace harmonaize {

/// Says in a hello which job this process belongs to. The name comes from HARMONAIZE_JOB and the
/// kind from HARMONAIZE_JOB_KIND. Without a name, the processes of one job are recognized by what
/// their launcher gave all of them: MASTER_ADDR, MASTER_PORT and TORCHELASTIC_RUN_ID (torchrun,
/// `harmonaize run`), or the numbers of a job and its step (Slurm), or PMIX_NAMESPACE. A kind that
/// does not exist is logged once.
void ClaimJob(HelloRequest* hello);

}  // namespace harmonaize
