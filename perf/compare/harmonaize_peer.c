// Our own side of the comparison, over the NCCL API; `harmonaize run` starts it:
//
//   compare_harmonaize FOLDER
//
// Variants: "heap", and "registered" for memory from ncclMemAlloc with ncclCommRegister. Without a
// stream: like the peers' calls, ours return when the operation has completed. "stream": heap on a
// host stream, for which each call is waited for.

#include <harmonaize.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/compare/peer_loop.h"

struct Context {
  ncclComm_t comm;
  cudaStream_t stream;
  void* registrations[2];  // of the send and of the receive buffer
};

static int Check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return 0;
  fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
  return -1;
}

static int IsRegistered(const struct PeerWork* work) {
  return strcmp(work->variant, "registered") == 0;
}

static float* Allocate(void* pointer, const struct PeerWork* work, int receives, size_t bytes) {
  struct Context* context = pointer;
  if (!IsRegistered(work)) return PeerAllocateHeap(context, work, receives, bytes);
  void* memory = NULL;
  if (Check(ncclMemAlloc(&memory, bytes), "ncclMemAlloc") != 0) return NULL;
  const ncclResult_t result =
      ncclCommRegister(context->comm, memory, bytes, &context->registrations[receives]);
  return Check(result, "ncclCommRegister") == 0 ? memory : NULL;
}

static void Release(void* pointer, const struct PeerWork* work, float* buffer) {
  struct Context* context = pointer;
  if (!IsRegistered(work)) {
    PeerReleaseHeap(context, work, buffer);
    return;
  }
  Check(ncclCommDeregister(context->comm, context->registrations[buffer == work->recv]),
        "ncclCommDeregister");
  Check(ncclMemFree(buffer), "ncclMemFree");
}

static int Prepare(void* context, const struct PeerWork* work) {
  (void)context, (void)work;
  return 0;
}

static void Finish(void* context, const struct PeerWork* work) {
  (void)context, (void)work;
}

static ncclResult_t SendAndReceive(const struct PeerWork* work, ncclComm_t comm,
                                   cudaStream_t stream) {
  const size_t n = work->block;
  const int next = (work->rank + 1) % work->ranks;
  const int previous = (work->rank + work->ranks - 1) % work->ranks;
  ncclGroupStart();
  ncclSend(work->send, n, ncclFloat, next, comm, stream);
  ncclRecv(work->recv, n, ncclFloat, previous, comm, stream);
  return ncclGroupEnd();  // tells the errors of the two as well
}

static ncclResult_t Call(const struct PeerWork* work, ncclComm_t comm, cudaStream_t stream) {
  const ncclDataType_t type = ncclFloat;
  const float* send = work->send;
  float* recv = work->recv;
  const size_t n = work->block;
  const int root = work->root;
  float* in_place = work->rank == root ? work->send : work->recv;
  switch (work->kind) {
    case kPeerAllReduce: return ncclAllReduce(send, recv, n, type, ncclSum, comm, stream);
    case kPeerReduce: return ncclReduce(send, recv, n, type, ncclSum, root, comm, stream);
    case kPeerBroadcast: return ncclBroadcast(in_place, in_place, n, type, root, comm, stream);
    case kPeerAllGather: return ncclAllGather(send, recv, n, type, comm, stream);
    case kPeerReduceScatter: return ncclReduceScatter(send, recv, n, type, ncclSum, comm, stream);
    case kPeerAllToAll: return ncclAlltoAll(send, recv, n, type, comm, stream);
    case kPeerGather: return ncclGather(send, recv, n, type, root, comm, stream);
    case kPeerScatter: return ncclScatter(send, recv, n, type, root, comm, stream);
    default: return SendAndReceive(work, comm, stream);
  }
}

static int Run(void* pointer, const struct PeerWork* work) {
  const struct Context* context = pointer;
  if (strcmp(work->variant, "stream") != 0) {
    return Check(Call(work, context->comm, NULL), "the collective");
  }
  if (Check(Call(work, context->comm, context->stream), "the collective") != 0) return -1;
  return Check(hzStreamSynchronize(context->stream), "hzStreamSynchronize");
}

static int Connect(struct PeerTeam* team, ncclComm_t* comm) {
  ncclUniqueId mine = {{0}};
  if (team->rank == 0 && Check(ncclGetUniqueId(&mine), "ncclGetUniqueId") != 0) return -1;
  ncclUniqueId all[kPeerMostRanks];
  PeerTeamAllGather(team, &mine, all, sizeof(mine));
  return Check(ncclCommInitRank(comm, team->ranks, all[0], team->rank), "ncclCommInitRank");
}

int main(int argc, char** argv) {
  const char* rank = getenv("RANK");
  const char* ranks = getenv("WORLD_SIZE");
  struct PeerTeam team;
  if (argc != 2 || rank == NULL || ranks == NULL ||
      PeerTeamJoin(&team, argv[1], atoi(rank), atoi(ranks)) != 0) {
    fprintf(stderr, "usage: %s FOLDER (perf/compare starts this)\n", argv[0]);
    return 2;
  }
  struct Context context = {0};
  if (Connect(&team, &context.comm) != 0) return 1;
  if (Check(hzStreamCreate(&context.stream), "hzStreamCreate") != 0) return 1;
  const struct PeerLibrary library = {.context = &context,
                                      .allocate = Allocate,
                                      .release = Release,
                                      .prepare = Prepare,
                                      .finish = Finish,
                                      .run = Run};
  const int status = PeerServe(&team, &library);
  if (status != 0) return status;
  if (Check(hzStreamDestroy(context.stream), "hzStreamDestroy") != 0) return 1;
  return Check(ncclCommDestroy(context.comm), "ncclCommDestroy") != 0;
}
