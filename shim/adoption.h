#pragma once

#include "include/nccl.h"
#include "src/base/status.h"

/// \file
/// Which library carries a communicator, where both are there (Route::kBoth). The ranks of a new
/// communicator first form one of ours, through the daemon. Each says whether it uses a GPU
/// (CudaContext) and has found stock NCCL, and the daemon tells all ranks whether all of them do.
/// Then rank 0 tells the others a unique id of stock NCCL's, over ours, and stock NCCL makes a
/// communicator of the same ranks beside ours, and carries its operations. Otherwise the daemon
/// carries them. All ranks decide alike, because they decide by what the daemon tells all of them.
/// See docs/cuda-preload.md.

namespace harmonaize::shim {

/// Decides on a communicator of ours that this thread has joined as one that stock NCCL could carry
/// (CommunicatorOptions::on_gpu), and whose handle is, or will be when the open group ends, in
/// `*out`. Waits for the other ranks: at once outside of a group, else in FinishAdoptions. `config`
/// is for stock NCCL, and may be NULL. Requires: Route::kBoth; the calling thread's CUDA context is
/// the rank's.
Status Adopt(ncclComm_t* out, const ncclConfig_t* config);

/// Decides on communicators of ours that are all ranks of one, made by this thread for these
/// devices, as ncclCommInitAll does. Requires: Route::kBoth, and no group is open.
Status AdoptAll(ncclComm_t* comms, int count, const int* devices);

/// Divides or shrinks the part of stock NCCL as ours has been, or will be when the open group ends.
/// Does nothing unless stock NCCL carries `parent`.
Status AdoptSplit(ncclComm_t parent, int color, int key, ncclComm_t* out, ncclConfig_t* config);
Status AdoptShrink(ncclComm_t parent, int* excluded, int count, ncclComm_t* out,
                   ncclConfig_t* config, int flags);

/// Runs what was put off. To be called when this thread's outermost group of ours has ended, with
/// its status; returns the status of all.
Status FinishAdoptions(const Status& group_ended);

/// Ends a communicator of ours whose part of stock NCCL could not be made, and sets `*out` to NULL.
/// Defined beside the calls that make communicators.
void GiveUp(ncclComm_t* out);

}  // namespace harmonaize::shim
