#ifndef HARMONAIZE_H_
#define HARMONAIZE_H_

/// \file
/// Functions for which NCCL has no counterpart. Plain C, in the same library as the NCCL API
/// (libnccl.so.2 or libharmonaize-preload.so); errors are NCCL's results, and ncclGetLastError has
/// their text.
///
/// A host stream is an ordered asynchronous queue of operations, to be passed wherever NCCL takes a
/// cudaStream_t:
///
///     cudaStream_t stream;
///     hzStreamCreate(&stream);
///     ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, stream);  // returns at once
///     ...                                                             // compute meanwhile
///     ncclResult_t result = hzStreamSynchronize(stream);                // now `out` may be read
///     hzStreamDestroy(stream);
///
/// Operations on one stream take effect one after the other, in the order of the calls; those of
/// different streams in any order, at the same time where they can. Without a host stream, an
/// operation has completed when its call, or its group, returns; on a communicator with blocking =
/// 0, when ncclCommGetAsyncError says so.

#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A host stream; the same type as CUDA's, so that it passes through code written for CUDA. No
/// CUDA function takes one.
typedef cudaStream_t hzStream_t;

/// Returns the version of Harmonaize, such as "0.1.0". Static storage.
const char* hzGetVersion(void);

/// Stores a new, empty stream into `*stream`. The caller destroys it. A stream belongs to the
/// process that made it and does not survive fork. The first stream of a process also makes a
/// thread, hz-copier, which copies data in memory that is not from ncclMemAlloc.
/// Errors: ncclInvalidArgument when `stream` is NULL; ncclSystemError when no daemon listens.
ncclResult_t hzStreamCreate(cudaStream_t* stream);

/// Waits until the stream is empty, and releases it. `stream` is not valid afterwards, also when an
/// error is returned. No other thread may be using it.
/// Errors: ncclInvalidArgument when `stream` is no host stream; otherwise as hzStreamSynchronize.
ncclResult_t hzStreamDestroy(cudaStream_t stream);

/// Does not wait: returns ncclInProgress while an operation of the stream has not completed, and
/// then what hzStreamSynchronize returns. May copy a quarter of a MiB of data in memory that is not
/// from ncclMemAlloc. May be called by any thread.
ncclResult_t hzStreamQuery(cudaStream_t stream);

/// Waits until all operations have completed that were on the stream when this was called, and
/// returns ncclSuccess, or the error of one that failed since hzStreamQuery or hzStreamSynchronize
/// last told of an error: each is told once. When it returns, the buffers of those operations are
/// the caller's again, also after an error. An operation that fails does not keep later ones from
/// running. May be called by any thread, by several at once.
/// Errors: ncclInvalidArgument when `stream` is no host stream; ncclRemoteError when the daemon is
/// gone.
ncclResult_t hzStreamSynchronize(cudaStream_t stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // HARMONAIZE_H_
