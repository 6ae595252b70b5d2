// The collectives of an MPI library. Compiled once with each MPI's wrapper, started by that MPI's
// mpirun:
//
//   compare_openmpi FOLDER

#include <mpi.h>
#include <stdio.h>

#include "perf/compare/peer_loop.h"

static int Run(void* context, const struct PeerWork* work) {
  (void)context;
  const MPI_Comm comm = MPI_COMM_WORLD;
  const MPI_Datatype type = MPI_FLOAT;
  float* send = work->send;
  float* recv = work->recv;
  const int n = (int)work->block;
  const int root = work->root;
  const int next = (work->rank + 1) % work->ranks;
  const int previous = (work->rank + work->ranks - 1) % work->ranks;
  // An error ends the program: MPI_ERRORS_ARE_FATAL is MPI's default.
  switch (work->kind) {
    case kPeerAllReduce: return MPI_Allreduce(send, recv, n, type, MPI_SUM, comm);
    case kPeerReduce: return MPI_Reduce(send, recv, n, type, MPI_SUM, root, comm);
    case kPeerBroadcast: return MPI_Bcast(work->rank == root ? send : recv, n, type, root, comm);
    case kPeerAllGather: return MPI_Allgather(send, n, type, recv, n, type, comm);
    case kPeerReduceScatter: return MPI_Reduce_scatter_block(send, recv, n, type, MPI_SUM, comm);
    case kPeerAllToAll: return MPI_Alltoall(send, n, type, recv, n, type, comm);
    case kPeerGather: return MPI_Gather(send, n, type, recv, n, type, root, comm);
    case kPeerScatter: return MPI_Scatter(send, n, type, recv, n, type, root, comm);
    default:
      return MPI_Sendrecv(send, n, type, next, 0, recv, n, type, previous, 0, comm,
                          MPI_STATUS_IGNORE);
  }
}

static int Prepare(void* context, const struct PeerWork* work) {
  (void)context, (void)work;
  return 0;
}

static void Finish(void* context, const struct PeerWork* work) {
  (void)context, (void)work;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct PeerTeam team;
  if (argc != 2 || PeerTeamJoin(&team, argv[1], rank, ranks) != 0) {
    fprintf(stderr, "usage: %s FOLDER (perf/compare starts this)\n", argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const struct PeerLibrary library = {.allocate = PeerAllocateHeap,
                                      .release = PeerReleaseHeap,
                                      .prepare = Prepare,
                                      .finish = Finish,
                                      .run = Run};
  const int status = PeerServe(&team, &library);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return 0;
}
