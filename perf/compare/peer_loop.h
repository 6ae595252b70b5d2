#pragma once

// The loop in which every library of the comparison is measured. A program of the comparison joins
// the team, makes the library's communicator, and hands its functions to PeerServe.

#include "perf/compare/peer_team.h"
#include "perf/compare/peer_work.h"

#ifdef __cplusplus
extern "C" {
#endif

// A library. All functions get `context`. Those that return int return 0 on success, and -1, with a
// line on standard error, when the program has to end.
struct PeerLibrary {
  void* context;
  // Returns memory for one buffer, page-aligned, or NULL. `work` is complete except for the
  // buffers.
  float* (*allocate)(void* context, const struct PeerWork* work, int receives, size_t bytes);
  void (*release)(void* context, const struct PeerWork* work, float* buffer);
  // Prepares for repetitions of the operation, for each root that it will have. Returns
  // kPeerUnsupported if the library has no such operation. `finish` follows in any case.
  int (*prepare)(void* context, const struct PeerWork* work);
  void (*finish)(void* context, const struct PeerWork* work);
  // Runs the operation once, with the root in `work`. Timed.
  int (*run)(void* context, const struct PeerWork* work);
};

enum { kPeerUnsupported = 1 };

// Allocate buffers from the heap, and release them.
float* PeerAllocateHeap(void* context, const struct PeerWork* work, int receives, size_t bytes);
void PeerReleaseHeap(void* context, const struct PeerWork* work, float* buffer);

// Measures what the driver asks for until it closes the connection. A request is a line
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
