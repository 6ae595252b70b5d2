// One collective of an MPI library, measured as the harness measures ours: the peer's side of
// perf/compare. Compiled once with each MPI's wrapper, started by that MPI's mpirun:
//
//   compare_openmpi COLLECTIVE BYTES ITERATIONS WARMUP
//
// float32, sum, out of place but for the broadcast, which MPI has in place only. Prints one line of
// JSON.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/compare/peer_work.h"

#ifdef OPEN_MPI
#define PEER "openmpi"
#else
#define PEER "mpich"
#endif

struct Buffers {
  float* send;
  float* recv;
};

static int Run(const struct PeerWork* work, const struct Buffers* buffers) {
  const MPI_Comm comm = MPI_COMM_WORLD;
  const MPI_Datatype type = MPI_FLOAT;
  float* send = buffers->send;
  float* recv = buffers->recv;
  const int n = (int)work->block;
  if (PeerIs(work, "all_reduce")) return MPI_Allreduce(send, recv, n, type, MPI_SUM, comm);
  if (PeerIs(work, "reduce")) return MPI_Reduce(send, recv, n, type, MPI_SUM, 0, comm);
  if (PeerIs(work, "broadcast")) return MPI_Bcast(work->rank == 0 ? send : recv, n, type, 0, comm);
  if (PeerIs(work, "all_gather")) return MPI_Allgather(send, n, type, recv, n, type, comm);
  if (PeerIs(work, "gather")) return MPI_Gather(send, n, type, recv, n, type, 0, comm);
  if (PeerIs(work, "scatter")) return MPI_Scatter(send, n, type, recv, n, type, 0, comm);
  if (PeerIs(work, "alltoall")) return MPI_Alltoall(send, n, type, recv, n, type, comm);
  if (PeerIs(work, "reduce_scatter")) {
    return MPI_Reduce_scatter_block(send, recv, n, type, MPI_SUM, comm);
  }
  return MPI_Sendrecv(send, n, type, (work->rank + 1) % work->ranks, 0, recv, n, type,
                      (work->rank + work->ranks - 1) % work->ranks, 0, comm, MPI_STATUS_IGNORE);
}

static double Measure(const struct PeerWork* work, const struct Buffers* buffers, int iterations,
                      int warmup) {
  for (int i = 0; i < warmup; ++i) Run(work, buffers);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) Run(work, buffers);
  double mine = (MPI_Wtime() - start) / iterations;
  double total = 0;
  MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return total / work->ranks;
}

static float* Allocate(size_t count) {
  void* memory = NULL;
  const size_t bytes = count * sizeof(float) + 64;
  if (posix_memalign(&memory, 4096, bytes) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  memset(memory, 0, bytes);
  return memory;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  struct PeerWork work = {.collective = argc == 5 ? argv[1] : ""};
  MPI_Comm_rank(MPI_COMM_WORLD, &work.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &work.ranks);
  if (argc != 5 || !PeerLayOut(&work, strtoull(argv[2], NULL, 10))) {
    if (work.rank == 0) fprintf(stderr, "usage: %s COLLECTIVE BYTES ITERATIONS WARMUP\n", argv[0]);
    MPI_Finalize();
    return 2;
  }
  struct Buffers buffers = {Allocate(work.send_count), Allocate(work.recv_count)};
  for (size_t i = 0; i < work.send_count; ++i) buffers.send[i] = PeerInput(work.rank, i);
  const double seconds = Measure(&work, &buffers, atoi(argv[3]), atoi(argv[4]));
  long wrong = PeerCountWrong(&work, buffers.recv);
  long all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (work.rank == 0) {
    printf("{\"peer\": \"" PEER "\", \"time_us\": %.4f, \"wrong\": %ld}\n", seconds * 1e6,
           all_wrong);
  }
  free(buffers.send);
  free(buffers.recv);
  MPI_Finalize();
  return all_wrong == 0 ? 0 : 1;
}
