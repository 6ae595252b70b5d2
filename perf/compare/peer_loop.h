#pragma once

// The loop in which every library of the comparison is measured. A program of the comparison joins
// the team, makes the library's communicator, and hands its functions to PeerServe.

#include "perf/compare/peer_team.h"
#include "perf/compare/peer_work.h"

#ifdef __cplusplus
extern "C" {
#endif

// A library. All functions get `context`; those that return int return 0 when all is well, and -1,
// with a line on standard error, when the program has to end.
struct PeerLibrary {
  void* context;
  // Memory for one buffer, page-aligned, or NULL. `work` has everything but the buffers.
  float* (*allocate)(void* context, const struct PeerWork* work, int receives, size_t bytes);
  void (*release)(void* context, const struct PeerWork* work, float* buffer);
  // Makes ready what can be before the operation is repeated, for each root that it will have;
  // kPeerUnsupported where the library has no such operation. Its opposite follows, in that case
  // too.
  int (*prepare)(void* context, const struct PeerWork* work);
  void (*finish)(void* context, const struct PeerWork* work);
  // The operation, once, with the root that `work` has. Timed.
  int (*run)(void* context, const struct PeerWork* work);
};

enum { kPeerUnsupported = 1 };

// Buffers from the heap.
float* PeerAllocateHeap(void* context, const struct PeerWork* work, int receives, size_t bytes);
void PeerReleaseHeap(void* context, const struct PeerWork* work, float* buffer);

// Measures what the driver asks for until it hangs up. A request is a line
//
//   COLLECTIVE BYTES ITERATIONS WARMUP VARIANT
//
// (PeerSetKind names the collectives) and an answer, from each rank, one line of JSON: "time_us",
// an operation's time as this rank saw it, and "wrong", its wrong elements; or "unsupported". For
// each request: fresh buffers, every page touched; WARMUP operations; a barrier; ITERATIONS
// operations, timed together; a barrier; the check of every element. Returns the program's exit
// status.
int PeerServe(struct PeerTeam* team, const struct PeerLibrary* library);

#ifdef __cplusplus
}  // extern "C"
#endif
