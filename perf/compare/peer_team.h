#pragma once

// Connects the ranks of one program of the comparison with each other and with the driver,
// independently of the library that is measured, so that all libraries are measured by the same
// means.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kPeerMostRanks = 64 };

struct PeerShared;  // what the ranks share; see peer_team.c

struct PeerTeam {
  int rank;
  int ranks;
  int driver;  // a stream socket
  unsigned long round;
  int spins;
  struct PeerShared* shared;
};

// Joins the team that meets in `folder`, where the driver listens. Returns 0, or -1 with a line on
// standard error.
int PeerTeamJoin(struct PeerTeam* team, const char* folder, int rank, int ranks);

// Returns when all ranks have called it. They leave within about a crossing of cache lines of each
// other, unless one kept the others waiting for milliseconds.
void PeerTeamBarrier(struct PeerTeam* team);

// Returns how often to poll before letting another process run: long enough for any crossing of
// cache lines if each rank has a processor of its own, and 0 if ranks share processors.
int PeerSpins(int ranks);

// Sends `bytes` bytes of every rank to all ranks, in the order of the ranks.
void PeerTeamAllGather(struct PeerTeam* team, const void* mine, void* all, size_t bytes);

#ifdef __cplusplus
}  // extern "C"
#endif
