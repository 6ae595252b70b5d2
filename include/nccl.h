#ifndef NCCL_H_
#define NCCL_H_

/// \file
/// The NCCL API as Harmonaize serves it, with the binary interface of NCCL 2.28.9 and the calls
/// that NCCL 2.29 to 2.32 added. A program compiled against NVIDIA's header runs on our
/// libnccl.so.2 unchanged, and the other way round. Longer structures of newer headers are
/// accepted: members that this header does not have are ignored.
///
/// What is different from NCCL on GPUs
/// -----------------------------------
/// - Every buffer is host memory: from malloc, mmap, the stack or ncclMemAlloc. A device number is
///   only a label that ncclCommCuDevice gives back.
/// - The work is done by the daemon `harmonaized` of the host. Where none listens, the call that
///   first needs it returns ncclSystemError, and ncclGetLastError names the socket that was tried.
/// - A stream is a host stream made by hzStreamCreate (harmonaize.h), or anything else. On a host
///   stream an operation is queued, and the call returns. With anything else, NULL included, the
///   operation has completed when the call returns or, inside a group, when the outermost
///   ncclGroupEnd returns: buffers may be read, written and freed at once.
///
/// Errors
/// ------
/// Every function that returns ncclResult_t may return
/// - ncclInvalidArgument: an argument is wrong by itself (NULL, negative, out of range);
/// - ncclInvalidUsage: the call is wrong in its place. In particular, all ranks get it when they
///   ask for different operations, counts, types, operators or roots at the same place in the
///   communicator's order, and the text names the ranks and what each asked for;
/// - ncclSystemError: the operating system refused something, or no daemon listens;
/// - ncclRemoteError: another rank, or the daemon, is gone;
/// - ncclInternalError: a bug of ours.
/// Below, "Errors" lists only what needs words of its own. ncclGetLastError gives the sentence that
/// belongs to an error. A failed call has no effect unless it says so. After ncclRemoteError a
/// communicator serves no more operations: ncclCommShrink or ncclCommAbort it.
///
/// Threads
/// -------
/// Every function may be called from any thread. Calls on one communicator from several threads at
/// once must be ordered by the caller, as all ranks have to see the same order; ncclCommAbort,
/// ncclCommRevoke, ncclCommGetAsyncError, ncclGetLastError and the queries may be called at any
/// time while the communicator exists. Groups belong to the thread that opens them.
///
/// Collective calls
/// ----------------
/// "Collective" means that every rank of the communicator has to make the call, in the same order
/// relative to other collective calls, or a thread that acts for several ranks makes it for each of
/// them inside one group. The call waits for the ranks that come later.

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

// CUDA gives cudaStream_t and, for programs which expect them to come with this header as they do
// with NVIDIA's, the 16- and 8-bit types. HARMONAIZE_NO_CUDA asks for none of it.
#if defined(__has_include) && !defined(HARMONAIZE_NO_CUDA)
#if __has_include(<cuda_runtime.h>)
#define HARMONAIZE_HAS_CUDA_HEADERS 1
#include <cuda_runtime.h>
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif
#endif
#ifndef HARMONAIZE_HAS_CUDA_HEADERS
/// The type that CUDA gives this name, so that objects compiled with and without CUDA link.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""

#define NCCL_VERSION_CODE 22809
/// The code of version X.Y.Z. From 2.9 on Y and Z have two digits each; before that Z has two.
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

#ifdef __cplusplus
extern "C" {
#endif

/// One rank's end of a communicator. Made by ncclCommInit*, ncclCommSplit, ncclCommShrink and
/// ncclCommGrow; released by ncclCommDestroy or ncclCommAbort, and by nothing else.
typedef struct ncclComm* ncclComm_t;
/// A buffer that all ranks registered together; see ncclCommWindowRegister.
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
/// Names a communicator that is being made. Plain bytes, to be sent to the other ranks by any
/// means. Holds a secret: who has the id may take a rank.
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/// What a call returns; see "Errors" above.
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,  ///< Never returned: nothing here calls CUDA.
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,  ///< Not an error: not finished yet.
  ncclNumResults = 8
} ncclResult_t;

/// "Not set", for the members of ncclConfig_t and ncclSimInfo_t.
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f

/// The color of a rank that wants no part in an ncclCommSplit.
#define NCCL_SPLIT_NOCOLOR -1

/// Flags of ncclCommWindowRegister, and the alignment in bytes that a symmetric window needs.
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

/// Values of ncclConfig_t::CTAPolicy. Without thread blocks to save, all three act alike.
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

/// Flags of ncclCommShrink.
#define NCCL_SHRINK_DEFAULT 0x00  ///< The parent has nothing in flight and stays usable.
#define NCCL_SHRINK_ABORT 0x01    ///< First end what the parent has in flight with an error.

/// Flags of ncclCommRevoke: none so far.
#define NCCL_REVOKE_DEFAULT 0x00

/// How a communicator shall behave. Start from NCCL_CONFIG_INITIALIZER, then set members. The
/// first three members belong to the initializer. Programs compiled against an older NCCL pass a
/// shorter structure; what they do not have counts as not set.
typedef struct ncclConfig_v22800 {
  size_t size;           ///< Bytes that the caller's header gives this structure.
  unsigned int magic;    ///< 0xcafebeef
  unsigned int version;  ///< Version code of the caller's header.

  /// 1 (as when not set): calls wait. 0: calls that would wait for other ranks return
  /// ncclInProgress, and ncclCommGetAsyncError tells when they have finished.
  int blocking;
  int cgaClusterSize;       ///< 0 to 8. No meaning without a GPU.
  int minCTAs;              ///< 1 or more. No meaning without a GPU.
  int maxCTAs;              ///< minCTAs or more. No meaning without a GPU.
  const char* netName;      ///< Ignored: the provider's daemon owns the network.
  int splitShare;           ///< 0 or 1. No meaning: communicators share the daemon in any case.
  int trafficClass;         ///< Ignored: the provider's daemon owns the network.
  const char* commName;     ///< A name for logs and `harmonaize status`; copied.
  int collnetEnable;        ///< 0 or 1. Ignored: the daemon chooses.
  int CTAPolicy;            ///< One of NCCL_CTA_POLICY_*. No meaning without a GPU.
  int shrinkShare;          ///< 0 or 1. No meaning, as for splitShare.
  int nvlsCTAs;             ///< 1 or more. No meaning without a GPU.
  int nChannelsPerNetPeer;  ///< 1 or more. Ignored: the daemon chooses.
  int nvlinkCentricSched;   ///< 0 or 1. No meaning without a GPU.
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                     \
  {                                                                                 \
    sizeof(ncclConfig_t),                                 /* size */                \
        0xcafebeef,                                       /* magic */               \
        NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), /* version */             \
        NCCL_CONFIG_UNDEF_INT,                            /* blocking */            \
        NCCL_CONFIG_UNDEF_INT,                            /* cgaClusterSize */      \
        NCCL_CONFIG_UNDEF_INT,                            /* minCTAs */             \
        NCCL_CONFIG_UNDEF_INT,                            /* maxCTAs */             \
        NCCL_CONFIG_UNDEF_PTR,                            /* netName */             \
        NCCL_CONFIG_UNDEF_INT,                            /* splitShare */          \
        NCCL_CONFIG_UNDEF_INT,                            /* trafficClass */        \
        NCCL_CONFIG_UNDEF_PTR,                            /* commName */            \
        NCCL_CONFIG_UNDEF_INT,                            /* collnetEnable */       \
        NCCL_CONFIG_UNDEF_INT,                            /* CTAPolicy */           \
        NCCL_CONFIG_UNDEF_INT,                            /* shrinkShare */         \
        NCCL_CONFIG_UNDEF_INT,                            /* nvlsCTAs */            \
        NCCL_CONFIG_UNDEF_INT,                            /* nChannelsPerNetPeer */ \
        NCCL_CONFIG_UNDEF_INT,                            /* nvlinkCentricSched */  \
  }

/// What ncclGroupSimulateEnd answers. Start from NCCL_SIM_INFO_INITIALIZER.
typedef struct ncclSimInfo_v22200 {
  size_t size;           ///< Bytes that the caller's header gives this structure.
  unsigned int magic;    ///< 0x74685283
  unsigned int version;  ///< Version code of the caller's header.
  float estimatedTime;   ///< Microseconds that the group's operations are expected to take.
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                             \
  {                                                                           \
    sizeof(ncclSimInfo_t),                                /* size */          \
        0x74685283,                                       /* magic */         \
        NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), /* version */       \
        NCCL_UNDEF_FLOAT                                  /* estimatedTime */ \
  }

/// Type of the elements in a buffer. 16- and 8-bit floating point is accumulated in float32 and
/// rounded once, to nearest even, when the result is written.
typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/// As wide as ncclRedOp_t; only there to compute ncclMaxRedOp.
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;

/// How values are combined. Integers wrap around. Values from ncclNumOps to ncclMaxRedOp are made
/// by ncclRedOpCreatePreMulSum and belong to one communicator.
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,  ///< The sum divided by the number of ranks; integers are rounded towards zero.
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

/// When the scalar of ncclRedOpCreatePreMulSum is read.
typedef enum {
  ncclScalarDevice = 0,        ///< By the call of every operation that uses the operator.
  ncclScalarHostImmediate = 1  ///< Before ncclRedOpCreatePreMulSum returns.
} ncclScalarResidence_t;

// ------------------------------------------------------------------------------------------------
// Version, errors, logging
// ------------------------------------------------------------------------------------------------

/// Stores 22809 into `*version`. Needs no daemon.
ncclResult_t ncclGetVersion(int* version);

/// Returns a short English text for `result`, for any value. Static storage; never NULL.
const char* ncclGetErrorString(ncclResult_t result);

/// Returns the sentence of the last error of `comm`, whichever thread saw it. When `comm` is NULL
/// or had none, returns that of the calling thread, or else of any thread. "" when there was none.
/// The text stays valid until the calling thread calls ncclGetLastError again. Never NULL.
const char* ncclGetLastError(ncclComm_t comm);

/// Reads NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE again.
#if defined(__GNUC__)
__attribute__((deprecated("not part of NCCL's supported API")))
#endif
void ncclResetDebugInit(void);

// ------------------------------------------------------------------------------------------------
// Communicators
// ------------------------------------------------------------------------------------------------

/// Makes an id for a communicator that does not exist yet. One rank calls this and sends the id to
/// the others. When NCCL_COMM_ID=host:port is set, every rank gets the same id from that text and
/// nothing has to be sent. The id holds a secret that only processes of the same tenant may use.
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/// Stores into `*uniqueId` an id with which new ranks join `comm` by ncclCommGrow. One rank of
/// `comm` calls this for each growth and sends the id to the ranks that join. Does not wait.
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);

/// Becomes rank `rank` of `nranks` in the communicator that `commId` names. Collective: waits until
/// all ranks have come. Inside a group `*comm` is valid when ncclGroupEnd has returned.
/// Errors: ncclInvalidArgument when `rank` is not in [0, nranks). ncclInvalidUsage when ranks
/// differ in `nranks`, two take the same rank, or an id that ncclGetUniqueId made is used twice.
/// ncclRemoteError when a rank dies before all have come. `*comm` is then NULL.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);

/// Does what ncclCommInitRank does, with `config`; NULL: all defaults. With blocking = 0 the call
/// returns ncclInProgress and a `*comm` for which only ncclCommGetAsyncError and ncclCommAbort may
/// be called until the former reports ncclSuccess.
/// Errors: ncclInvalidArgument when `config` was not initialized or a member is out of range.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config);

/// Does what ncclCommInitRankConfig does. NCCL lets several ids share the load of the start-up;
/// here the daemon carries it, and the first id names the communicator. `nId` is in [1, nranks] and
/// equal on all ranks, as are the ids and their order.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config);

/// Makes a communicator whose `ndev` ranks all belong to the calling thread, and stores them into
/// `comm[0 .. ndev)`. `devlist`, when not NULL, has their device labels; otherwise 0 to ndev - 1.
/// Errors: ncclInvalidUsage when a label occurs twice.
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/// Divides `comm`: the ranks that give the same `color` (0 or more) make one new communicator, in
/// the order of `key`, and among equal keys in the order of their old ranks. NCCL_SPLIT_NOCOLOR
/// gives `*newcomm` = NULL. `config` NULL: as `comm` was made. Collective on `comm`, which stays
/// usable.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config);

/// Makes a communicator of the ranks of `comm` that are not among the `excludeRanksCount` ranks in
/// `excludeRanksList`, in their old order. Only the ranks that stay call it, with equal lists.
/// With NCCL_SHRINK_ABORT operations in flight on `comm` end with an error first: use it when an
/// excluded rank is gone. `comm` still has to be destroyed or aborted.
/// Errors: ncclInvalidArgument when the list is empty, names a rank twice or out of range, or the
/// calling rank.
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);

/// Makes a communicator of `nRanks` ranks, more than `comm` has: the ranks of `comm`, which keep
/// their numbers, and new ones. A rank of `comm` passes `comm`, `rank` = -1 and, as `uniqueId`, the
/// id from ncclCommGetUniqueId on the rank that made it and NULL on the others. A rank that joins
/// passes NULL for `comm`, the id, and its number in [size of `comm`, nRanks). Collective over all
/// `nRanks`. `comm` stays usable. `config` as for ncclCommSplit.
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config);

/// Stops what `comm` has in flight with an error at all ranks, and refuses new operations on it
/// with ncclInvalidUsage. Does not wait for peers. Afterwards ncclCommSplit, ncclCommShrink and
/// ncclCommDestroy may be called, ncclCommFinalize may not. `revokeFlags` is NCCL_REVOKE_DEFAULT.
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);

/// Waits until all operations of this rank have completed, and takes no more. Waits for other ranks
/// only as far as those operations do. With blocking = 0 it may return ncclInProgress, and
/// ncclCommGetAsyncError tells when it has finished.
ncclResult_t ncclCommFinalize(ncclComm_t comm);

/// Finalizes `comm` unless that has been done, and releases it; `comm` is not valid afterwards,
/// also when an error is returned. NULL is no error.
ncclResult_t ncclCommDestroy(ncclComm_t comm);

/// Ends the operations of this rank with an error wherever they are, and releases `comm`, which is
/// not valid afterwards. Returns promptly whatever the peers do; they get ncclRemoteError from
/// operations that need this rank. Other threads may be inside calls on `comm`, the one that makes
/// or destroys it included: these end with ncclRemoteError. NULL is no error.
ncclResult_t ncclCommAbort(ncclComm_t comm);

/// Stores the state of `comm`: ncclSuccess; ncclInProgress while a call on a communicator with
/// blocking = 0 has not finished; or the error that put the communicator out of use. Never waits.
/// With blocking = 0 the data of an operation that has finished is in its buffers once this says
/// so.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);

/// Stores the number of ranks of `comm` into `*count`.
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);

/// Stores the device label of this rank into `*device`: from `devlist` of ncclCommInitAll, and
/// otherwise LOCAL_RANK of the environment, or else 0.
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);

/// Stores the number of this rank in `comm` into `*rank`.
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);

// ------------------------------------------------------------------------------------------------
// Memory
// ------------------------------------------------------------------------------------------------

/// Stores into `*ptr` at least `size` bytes of zeroed memory, aligned to a page, which the daemon
/// maps too: operations on it copy nothing. `size` 0 gives NULL. Needs no daemon; the memory counts
/// against the tenant's quota from its first use in an operation, which fails over the quota.
/// Errors: ncclSystemError when there is not so much memory.
ncclResult_t ncclMemAlloc(void** ptr, size_t size);

/// Releases memory of ncclMemAlloc, once no operation is using it any more. NULL is no error.
/// Errors: ncclInvalidArgument when `ptr` is not from ncclMemAlloc.
ncclResult_t ncclMemFree(void* ptr);

/// Tells that [buff, buff + size) will be used often with `comm`, and stores a handle. Never
/// needed: memory of ncclMemAlloc is registered from birth, and other memory gains nothing by it.
/// Errors: ncclInvalidArgument when `size` is 0.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);

/// Undoes ncclCommRegister; the end of `comm` does so too. NULL is no error.
/// Errors: ncclInvalidArgument when `handle` is not from ncclCommRegister on `comm`.
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);

/// Does what ncclCommRegister does, for a buffer that every rank brings; does not wait for them.
/// With NCCL_WIN_COLL_SYMMETRIC, `buff` is aligned to NCCL_WIN_REQUIRED_ALIGNMENT. The window can
/// be deregistered and asked for its address: the device-side functions that would use it are not
/// served. The flags NCCL_WIN_STRICT_ORDERING, NCCL_WIN_GIN_ONLY and NCCL_WIN_CFT_COUNTED choose
/// among those functions, and have no effect.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int winFlags);

/// Undoes ncclCommWindowRegister, as ncclCommDeregister does for ncclCommRegister.
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/// Stores into `*outUserPtr` the `buff` with which `win` was registered on `comm`.
/// Errors: ncclInvalidArgument when `win` is not from ncclCommWindowRegister on `comm`.
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/// What ncclCommMemStats counts, in bytes but for one. NCCL counts memory of the GPU. Here the
/// numbers count shared memory of the host that the library maps for the communicator alone: the
/// segment of the inline path. No part of it can be suspended, because all ranks use it at once.
typedef enum {
  ncclStatGpuMemSuspend = 0,    ///< Memory that a suspension frees: 0.
  ncclStatGpuMemSuspended = 1,  ///< 1 while the communicator is suspended, else 0.
  ncclStatGpuMemPersist = 2,    ///< Memory that stays.
  ncclStatGpuMemTotal = 3       ///< The sum of both.
} ncclCommMemStat_t;

/// Stores one number about the memory of `comm` into `*value`.
/// Errors: ncclInvalidArgument when `stat` is none of the four.
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);

/// Flag of ncclCommSuspend: give back the memory that can be given back.
#define NCCL_SUSPEND_MEM 0x01

/// Takes no more operations on `comm`, and makes no communicators from it, until ncclCommResume:
/// such calls return ncclInvalidUsage. Operations that were posted before go on. Does not wait for
/// other ranks. No memory is freed, see ncclCommMemStats. A second call changes nothing.
/// Errors: ncclInvalidArgument when `flags` is neither 0 nor NCCL_SUSPEND_MEM.
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);

/// Undoes ncclCommSuspend. No error when `comm` is not suspended.
ncclResult_t ncclCommResume(ncclComm_t comm);

// ------------------------------------------------------------------------------------------------
// Operators
// ------------------------------------------------------------------------------------------------

/// Makes an operator that multiplies this rank's input by `*scalar`, an element of `datatype`, and
/// then sums. Each rank may have a scalar of its own, so ranks use the operator of their own
/// communicator. `residence` says when the scalar is read.
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);

/// Releases an operator of ncclRedOpCreatePreMulSum. May be called as soon as the last call that
/// uses it has returned.
/// Errors: ncclInvalidArgument when `op` is built in or not of `comm`.
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

// ------------------------------------------------------------------------------------------------
// Operations. Counts are elements of `datatype`, of any number, zero included. Buffers need no
// alignment. "In place" is as each function says; other overlaps of input and output are
// errors of the caller, and the result is undefined.
// ------------------------------------------------------------------------------------------------

/// recvbuff[i] = op over ranks of sendbuff[i], on every rank; `count` elements in both.
/// In place: sendbuff == recvbuff.
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);

/// recvbuff[i] = op over ranks of sendbuff[i], on rank `root`; `recvbuff` is not used elsewhere and
/// may be NULL there. In place: sendbuff == recvbuff.
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);

/// recvbuff = the `count` elements of sendbuff on rank `root`, on every rank; `sendbuff` is not
/// used elsewhere and may be NULL there. In place: sendbuff == recvbuff.
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/// Does what ncclBroadcast does, in place.
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);

/// recvbuff = the `sendcount` elements of rank 0, then of rank 1, ..., on every rank; `recvbuff`
/// has nranks * sendcount elements. In place: sendbuff == recvbuff + rank * sendcount.
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/// On rank r, recvbuff = the r-th block of `recvcount` elements of the reduction of all sendbuffs,
/// which have nranks * recvcount elements. In place: recvbuff == sendbuff + rank * recvcount.
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);

/// Block r of `recvbuff` = this rank's block in the sendbuff of rank r; both have nranks blocks of
/// `count` elements. In place: sendbuff == recvbuff.
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

/// On rank `root`, block r of `recvbuff` = the `count` elements of rank r's sendbuff; `recvbuff` is
/// not used elsewhere and may be NULL there. In place: sendbuff == recvbuff + root * count.
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream);

/// On rank r, recvbuff = block r of `count` elements of the sendbuff of rank `root`; `sendbuff` is
/// not used elsewhere and may be NULL there. In place: recvbuff == sendbuff + root * count.
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/// Sends `count` elements to rank `peer`, which receives them with an ncclRecv of the same count
/// and type. Sends from one rank to another match in the order in which both sides call. Outside a
/// group the call waits until the peer has received; inside one, sends and receives proceed
/// together in whatever order they were made. `peer` may be the calling rank, inside a group.
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

/// Receives `count` elements from rank `peer`; see ncclSend.
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

// ------------------------------------------------------------------------------------------------
// Operations with options of their own
// ------------------------------------------------------------------------------------------------

/// An option of one vendor's library, in a list. Harmonaize has none, and ignores them all.
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;  ///< The next option; NULL at the end.
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/// How one operation shall run. Start from NCCL_COLLCONFIG_INITIALIZER, then set members. The first
/// three members belong to the initializer. What an older header does not have counts as not set.
typedef struct ncclCollConfig_v23200 {
  size_t size;           ///< Bytes that the caller's header gives this structure.
  unsigned int magic;    ///< 0xcafebeef
  unsigned int version;  ///< Version code of the caller's header.

  ncclConfigExt_t* ext;  ///< Ignored.
  int minCTAs;           ///< No meaning without a GPU.
  int maxCTAs;           ///< No meaning without a GPU.
  int nvlsCTAs;          ///< No meaning without a GPU.
  int cgaClusterSize;    ///< No meaning without a GPU.
  /// Names of NCCL's algorithms; NULL and "" leave the choice to the library. The daemon chooses
  /// here: a name is refused, unless `forceAlgSelection` is 0.
  const char* algSelection;
  int forceAlgSelection;     ///< 1 (the initializer's): fail rather than run another algorithm.
  int CTAPolicy;             ///< No meaning without a GPU.
  uint64_t userProfilerTag;  ///< For profiler plugins of NCCL. Ignored.
  /// Refused unless NULL: no kernel is launched whose launch could be recorded.
  cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                   \
  {                                                                                   \
    sizeof(ncclCollConfig_t),                             /* size */                  \
        0xcafebeef,                                       /* magic */                 \
        NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), /* version */               \
        NCCL_CONFIG_UNDEF_PTR,                            /* ext */                   \
        NCCL_CONFIG_UNDEF_INT,                            /* minCTAs */               \
        NCCL_CONFIG_UNDEF_INT,                            /* maxCTAs */               \
        NCCL_CONFIG_UNDEF_INT,                            /* nvlsCTAs */              \
        NCCL_CONFIG_UNDEF_INT,                            /* cgaClusterSize */        \
        NCCL_CONFIG_UNDEF_PTR,                            /* algSelection */          \
        1,                                                /* forceAlgSelection */     \
        NCCL_CONFIG_UNDEF_INT,                            /* CTAPolicy */             \
        0,                                                /* userProfilerTag */       \
        NCCL_CONFIG_UNDEF_PTR                             /* launchCompletionEvent */ \
  }

/// ncclXConfig does what ncclX does, with `config`; NULL: exactly ncclX.
/// Errors: ncclInvalidArgument when `config` was not initialized. ncclInvalidUsage when it asks for
/// an algorithm by name, or for an event of CUDA's.
ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config);
ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config);
ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);

// ------------------------------------------------------------------------------------------------
// One-sided operations: refused. Each of these calls returns ncclInvalidUsage with a sentence that
// names the way out. They exist so that programs which link to them start.
// ------------------------------------------------------------------------------------------------

/// Writes into a window of rank `peer`, and raises a signal there. Refused.
ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                           unsigned int flags, ncclComm_t comm, cudaStream_t stream);

/// Raises a signal at rank `peer`. Refused.
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream);

/// What ncclWaitSignal waits for: `opCnt` signals of rank `peer`, by index and context.
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/// Waits for signals. Refused.
ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                            cudaStream_t stream);

// ------------------------------------------------------------------------------------------------
// Groups
// ------------------------------------------------------------------------------------------------

/// Opens a group in this thread: operations and the making of communicators are only noted until
/// the matching ncclGroupEnd. Groups nest; the outermost counts. Needed where one thread acts for
/// several ranks, and for sends and receives that depend on each other.
ncclResult_t ncclGroupStart(void);

/// Closes a group; the outermost one carries out all that was noted, and waits as each call would
/// have. Returns the first error of the calls in the group, also of those that failed when they
/// were made; then nothing of the group was started. With communicators of blocking = 0 it
/// returns ncclInProgress when something has not finished.
/// Errors: ncclInvalidUsage without an ncclGroupStart.
ncclResult_t ncclGroupEnd(void);

/// Closes a group without carrying it out, and stores how long its operations would take on this
/// host by the cost model of the executor. `simInfo` NULL: nothing is stored.
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

// ------------------------------------------------------------------------------------------------
// Encryption
// ------------------------------------------------------------------------------------------------

typedef enum {
  NCCL_ENCRYPTION_MODE_NONE = 0,
  NCCL_ENCRYPTION_MODE_PSK = 1  ///< By a key that all ranks have.
} ncclEncryptionMode_t;

/// Start from NCCL_ENCRYPTION_CONFIG_INITIALIZER. The first three members belong to it.
typedef struct ncclEncryptionConfig_v23200 {
  size_t size;           ///< Bytes that the caller's header gives this structure.
  unsigned int magic;    ///< 0xcafebeef
  unsigned int version;  ///< Version code of the caller's header.
  int mode;              ///< One of ncclEncryptionMode_t.
  const char* psk;       ///< The key.
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                              \
  {                                                                     \
    sizeof(ncclEncryptionConfig_t),                       /* size */    \
        0xcafebeef,                                       /* magic */   \
        NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), /* version */ \
        NCCL_ENCRYPTION_MODE_NONE,                        /* mode */    \
        NCCL_CONFIG_UNDEF_PTR                             /* psk */     \
  }

/// Asks for the encryption of what goes between hosts. That traffic belongs to the provider's
/// daemons: only NCCL_ENCRYPTION_MODE_NONE is accepted, and changes nothing.
/// Errors: ncclInvalidArgument when `config` was not initialized. ncclInvalidUsage for another
/// mode.
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config);

// ------------------------------------------------------------------------------------------------
// Parameters: the variables of the environment, and of NCCL's configuration files, that this
// library reads. The names are those of the variables, as in the user guide. A value is the text
// that was set, "" where none was. Needs no daemon. Threads: a text stays valid until the same
// thread makes the same call again.
// ------------------------------------------------------------------------------------------------

/// One parameter. Belongs to the library, and is valid for ever.
typedef struct ncclParamHandle* ncclParamHandle_t;

/// Stores the parameter that is called `key` into `*out`.
/// Errors: ncclInvalidArgument when this library reads no variable of that name.
ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key);

/// Store the value of a parameter that is a whole number.
/// Errors: ncclInvalidArgument when the value is no such number, or does not fit.
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t* out);

/// Stores the value's text into `*out`.
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out);

/// Copies the value's text, with its terminating zero, into `out`, which has room for `maxLen`
/// bytes, and stores the number of bytes into `*len`.
/// Errors: ncclInvalidArgument when it does not fit; `*len` is then 0.
ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len);

/// Stores the text of the parameter `key` and the text's length into `*value` and `*valueLen`.
/// Errors: as ncclParamBind; NULL and 0 are then stored.
ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen);

/// Stores an array of all names, and their number, into `*table` and `*tableLen`.
ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen);

/// Writes all parameters and their values to standard output, one a line.
void ncclParamDumpAll(void);

// ------------------------------------------------------------------------------------------------
// Second names. Each ncclX above is a weak symbol and stands for pncclX, so that a tool may
// define its own ncclX and call pncclX from it.
// ------------------------------------------------------------------------------------------------

ncclResult_t pncclGetVersion(int* version);
const char* pncclGetErrorString(ncclResult_t result);
const char* pncclGetLastError(ncclComm_t comm);
#if defined(__GNUC__)
__attribute__((deprecated("not part of NCCL's supported API")))
#endif
void pncclResetDebugInit(void);
ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config);
ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId* commIds, ncclConfig_t* config);
ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                            ncclConfig_t* config);
ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                             ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags);
ncclResult_t pncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t pncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t pncclMemAlloc(void** ptr, size_t size);
ncclResult_t pncclMemFree(void* ptr);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                     int winFlags);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream);
ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                         cudaStream_t stream);
ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream);
ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream);
ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclGroupStart(void);
ncclResult_t pncclGroupEnd(void);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommResume(ncclComm_t comm);
ncclResult_t pncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, int root, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config);
ncclResult_t pncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config);
ncclResult_t pncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t pncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                            unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                         cudaStream_t stream);
ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                             cudaStream_t stream);
ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t* config);
ncclResult_t pncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t* out);
ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char** out);
ncclResult_t pncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len);
ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t pncclParamGetAllParameterKeys(const char*** table, int* tableLen);
void pncclParamDumpAll(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // NCCL_H_
