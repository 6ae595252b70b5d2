#pragma once

// The task that all programs of the comparison run: the same collectives, layout of buffers and
// data. Plain C, because the MPI peers are. float32 and sum throughout; sizes count the larger
// buffer of a rank, and blocks are whole elements. The root is rank 0, or, for "broadcast_turns"
// and "reduce_turns", each rank in turn. With one root nobody waits for all others, so a row of
// operations shows a rate; in turns it shows how long one takes.

#include <stddef.h>
#include <string.h>

enum PeerKind {
  kPeerAllReduce,
  kPeerReduce,
  kPeerBroadcast,
  kPeerAllGather,
  kPeerReduceScatter,
  kPeerAllToAll,
  kPeerGather,
  kPeerScatter,
  kPeerSendReceive,
  kPeerKinds
};

struct PeerWork {
  enum PeerKind kind;
  int in_turns;      // the root of the next operation is the next rank
  int root;          // root of the operation that is run
  char variant[32];  // which of the library's variants, such as "heap" or "registered"; may be "-"
  int ranks;
  int rank;
  size_t block;  // elements passed to the call
  size_t send_count;
  size_t recv_count;
  float* send;  // this rank's buffers
  float* recv;
};

// Returns the kind with this name, of which only `length` characters count, or kPeerKinds.
static inline enum PeerKind PeerKindNamed(const char* name, size_t length) {
  static const char* const kNames[kPeerKinds] = {"all_reduce", "reduce",         "broadcast",
                                                 "all_gather", "reduce_scatter", "alltoall",
                                                 "gather",     "scatter",        "sendrecv"};
  int kind = 0;
  while (kind < kPeerKinds &&
         (strlen(kNames[kind]) != length || strncmp(name, kNames[kind], length) != 0)) {
    ++kind;
  }
  return (enum PeerKind)kind;
}

// Sets the kind from the name of a collective. Returns 0, or -1 when there is none of this name.
static inline int PeerSetKind(struct PeerWork* work, const char* name) {
  static const char kInTurns[] = "_turns";
  const size_t length = strlen(name);
  const size_t tail = sizeof(kInTurns) - 1;
  work->in_turns = length > tail && strcmp(name + length - tail, kInTurns) == 0;
  work->kind = PeerKindNamed(name, work->in_turns ? length - tail : length);
  const int has_turns = work->kind == kPeerBroadcast || work->kind == kPeerReduce;
  return work->kind == kPeerKinds || (work->in_turns && !has_turns) ? -1 : 0;
}

// Sets the counts for `bytes` bytes. Returns whether there is anything to move.
static inline int PeerLayOut(struct PeerWork* work, size_t bytes) {
  const size_t count = bytes / sizeof(float);
  const size_t share = count / (size_t)work->ranks;
  const size_t all = share * (size_t)work->ranks;
  work->block = share;
  work->send_count = work->recv_count = all;
  switch (work->kind) {
    case kPeerAllReduce:
    case kPeerReduce:
    case kPeerBroadcast:
    case kPeerSendReceive: work->block = work->send_count = work->recv_count = count; break;
    case kPeerAllGather:
    case kPeerGather: work->send_count = share; break;
    case kPeerReduceScatter:
    case kPeerScatter: work->recv_count = share; break;
    default: break;
  }
  return work->block > 0;
}

// Returns an element of `rank`'s input: a small integer, so that every sum is exact.
static inline float PeerInput(int rank, size_t index) {
  return (float)(rank + 1 + (int)(index % 7));
}

// Returns the sum of all ranks' inputs.
static inline float PeerSum(const struct PeerWork* work, size_t index) {
  return (float)(work->ranks * (work->ranks + 1) / 2 + work->ranks * (int)(index % 7));
}

// Returns how many of `count` elements at `found` are not `rank`'s input from element `first` on.
static inline long PeerCountOthers(int rank, size_t first, size_t count, const float* found) {
  long wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += found[i] != PeerInput(rank, first + i);
  return wrong;
}

static inline long PeerCountWrongSums(const struct PeerWork* work, size_t first) {
  long wrong = 0;
  for (size_t i = 0; i < work->recv_count; ++i) {
    wrong += work->recv[i] != PeerSum(work, first + i);
  }
  return wrong;
}

// Returns the wrong elements of one block of each rank, from element `first` of its input on.
static inline long PeerCountWrongBlocks(const struct PeerWork* work, size_t first) {
  long wrong = 0;
  for (int rank = 0; rank < work->ranks; ++rank) {
    wrong += PeerCountOthers(rank, first, work->block, work->recv + (size_t)rank * work->block);
  }
  return wrong;
}

// Returns how many elements of the receive buffer are wrong after the last operation. The broadcast
// is in place, so its root receives nothing.
static inline long PeerCountWrong(const struct PeerWork* work) {
  const int root = work->rank == work->root;
  const size_t own = (size_t)work->rank * work->block;
  switch (work->kind) {
    case kPeerAllReduce: return PeerCountWrongSums(work, 0);
    case kPeerReduce: return root ? PeerCountWrongSums(work, 0) : 0;
    case kPeerReduceScatter: return PeerCountWrongSums(work, own);
    case kPeerBroadcast:
      return root ? 0 : PeerCountOthers(work->root, 0, work->recv_count, work->recv);
    case kPeerScatter: return PeerCountOthers(0, own, work->recv_count, work->recv);
    case kPeerGather: return root ? PeerCountWrongBlocks(work, 0) : 0;
    case kPeerAllGather: return PeerCountWrongBlocks(work, 0);
    case kPeerAllToAll: return PeerCountWrongBlocks(work, own);
    case kPeerSendReceive:
      return PeerCountOthers((work->rank + work->ranks - 1) % work->ranks, 0, work->recv_count,
                             work->recv);
    default: return 1;
  }
}
