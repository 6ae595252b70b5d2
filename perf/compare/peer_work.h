#pragma once

// What all peers of the comparison run: the same collectives, the same layout of buffers, the same
// data. Plain C, because the MPI peers are. float32 and sum throughout; sizes count the larger
// buffer of a rank, and blocks are multiples of 16 bytes, both as in nccl-tests.

#include <stddef.h>
#include <string.h>

struct PeerWork {
  const char* collective;
  int ranks;
  int rank;
  size_t block;  // elements that the call is given
  size_t send_count;
  size_t recv_count;
};

static inline int PeerIs(const struct PeerWork* work, const char* name) {
  return strcmp(work->collective, name) == 0;
}

// Fills in the counts for `bytes` bytes; 0 when there is no such collective.
static inline int PeerLayOut(struct PeerWork* work, size_t bytes) {
  const size_t count = bytes / sizeof(float);
  const size_t share = count / (size_t)work->ranks / 4 * 4;
  const size_t all = share * (size_t)work->ranks;
  work->block = share;
  work->send_count = work->recv_count = all;
  if (PeerIs(work, "all_reduce") || PeerIs(work, "reduce") || PeerIs(work, "broadcast") ||
      PeerIs(work, "sendrecv")) {
    work->block = work->send_count = work->recv_count = count;
  } else if (PeerIs(work, "all_gather") || PeerIs(work, "gather")) {
    work->send_count = share;
  } else if (PeerIs(work, "reduce_scatter") || PeerIs(work, "scatter")) {
    work->recv_count = share;
  } else if (!PeerIs(work, "alltoall")) {
    return 0;
  }
  return 1;
}

// What `rank` puts in: small integers, so that every sum is exact.
static inline float PeerInput(int rank, size_t index) {
  return (float)(rank + 1 + (int)(index % 7));
}

static inline float PeerSum(const struct PeerWork* work, size_t index) {
  float sum = 0;
  for (int rank = 0; rank < work->ranks; ++rank) sum += PeerInput(rank, index);
  return sum;
}

// What must be element `i` of work->rank's receive buffer; the root is rank 0.
static inline float PeerExpected(const struct PeerWork* work, size_t i) {
  const size_t own = (size_t)work->rank * work->block;
  if (PeerIs(work, "all_reduce") || PeerIs(work, "reduce")) return PeerSum(work, i);
  if (PeerIs(work, "reduce_scatter")) return PeerSum(work, own + i);
  if (PeerIs(work, "broadcast")) return PeerInput(0, i);
  if (PeerIs(work, "scatter")) return PeerInput(0, own + i);
  if (PeerIs(work, "sendrecv")) {
    return PeerInput((work->rank + work->ranks - 1) % work->ranks, i);
  }
  const int source = (int)(i / work->block);
  if (PeerIs(work, "alltoall")) return PeerInput(source, own + i % work->block);
  return PeerInput(source, i % work->block);  // all_gather and gather
}

// How many elements are wrong. The broadcast is in place: its root receives nothing.
static inline long PeerCountWrong(const struct PeerWork* work, const float* recv) {
  const int root = work->rank == 0;
  if (!root && (PeerIs(work, "reduce") || PeerIs(work, "gather"))) return 0;
  if (root && PeerIs(work, "broadcast")) return 0;
  long wrong = 0;
  for (size_t i = 0; i < work->recv_count; ++i) wrong += recv[i] != PeerExpected(work, i);
  return wrong;
}
