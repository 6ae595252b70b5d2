#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/ipc/messages.h"

namespace harmonaize {

/// Says in a hello which job this process belongs to. Name and kind come from SetJob, else from
/// HARMONAIZE_JOB and HARMONAIZE_JOB_KIND, else from [job] in the file of HARMONAIZE_REQUIREMENTS.
/// Without a name, the processes of one job are recognized by what
/// their launcher gave all of them: MASTER_ADDR, MASTER_PORT and TORCHELASTIC_RUN_ID (torchrun,
/// `harmonaize run`), or the numbers of a job and its step (Slurm), or PMIX_NAMESPACE. A kind that
/// does not exist is logged once.
void ClaimJob(HelloRequest* hello);

/// Returns the name in the hello of a session that begins now; "": the job has none. Thread: any.
std::string NameOfProcessJob();

/// Sets the name and kind of this process's job, for sessions that begin later. "" leaves one as it
/// would be. Errors: kInvalidArgument for a name that is longer than a hello has room for, or is
/// not one line of text, and for a kind that does not exist. Thread: any.
Status SetJob(std::string_view name, std::string_view kind);

}  // namespace harmonaize
