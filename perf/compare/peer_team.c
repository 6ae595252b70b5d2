#include "perf/compare/peer_team.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { kCacheLine = 64, kSlotBytes = 4096 };

struct Flag {
  _Alignas(kCacheLine) atomic_ulong round;
};

// Zeroes at first, as a fresh file is.
struct PeerShared {
  struct Flag flags[kPeerMostRanks];
  char slots[kPeerMostRanks][kSlotBytes];
};

static int Complain(const char* what, const char* path) {
  fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
  return -1;
}

static int MapShared(struct PeerTeam* team, const char* folder) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/team", folder);
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Complain("cannot open", path);
  // Each rank gives the file the same length, so it does not matter who comes first.
  if (ftruncate(fd, sizeof(struct PeerShared)) != 0) return Complain("cannot size", path);
  team->shared = mmap(NULL, sizeof(struct PeerShared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return team->shared == MAP_FAILED ? Complain("cannot map", path) : 0;
}

int PeerTeamJoin(struct PeerTeam* team, const char* folder, int rank, int ranks) {
  if (ranks < 1 || ranks > kPeerMostRanks) {
    fprintf(stderr, "%d ranks: there may be 1 to %d\n", ranks, kPeerMostRanks);
    return -1;
  }
  team->rank = rank;
  team->ranks = ranks;
  team->round = 0;
  team->spins = PeerSpins(ranks);
  if (MapShared(team, folder) != 0) return -1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int length = snprintf(address.sun_path, sizeof(address.sun_path), "%s/driver", folder);
  if (length >= (int)sizeof(address.sun_path)) errno = ENAMETOOLONG;
  team->driver = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (team->driver < 0 || length >= (int)sizeof(address.sun_path) ||
      connect(team->driver, (struct sockaddr*)&address, sizeof(address)) != 0) {
    return Complain("no driver listens in", folder);
  }
  return dprintf(team->driver, "%d\n", rank) > 0 ? 0 : Complain("no driver reads in", folder);
}

int PeerSpins(int ranks) {
  return ranks > sysconf(_SC_NPROCESSORS_ONLN) ? 0 : 2000;
}

// Then who waits for one that is still filling its buffers leaves it the machine.
enum { kYields = 1000 };

static void AwaitRound(atomic_ulong* flag, unsigned long round, int spins) {
  for (int tries = 0; atomic_load_explicit(flag, memory_order_acquire) < round; ++tries) {
    if (tries < spins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (tries < spins + kYields) {
      sched_yield();
    } else {
      nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    }
  }
}

void PeerTeamBarrier(struct PeerTeam* team) {
  const unsigned long round = ++team->round;
  atomic_store_explicit(&team->shared->flags[team->rank].round, round, memory_order_release);
  for (int rank = 0; rank < team->ranks; ++rank) {
    AwaitRound(&team->shared->flags[rank].round, round, team->spins);
  }
}

void PeerTeamAllGather(struct PeerTeam* team, const void* mine, void* all, size_t bytes) {
  for (size_t done = 0; done < bytes; done += kSlotBytes) {
    const size_t piece = bytes - done < kSlotBytes ? bytes - done : kSlotBytes;
    memcpy(team->shared->slots[team->rank], (const char*)mine + done, piece);
    PeerTeamBarrier(team);
    for (int rank = 0; rank < team->ranks; ++rank) {
      memcpy((char*)all + (size_t)rank * bytes + done, team->shared->slots[rank], piece);
    }
    PeerTeamBarrier(team);
  }
}
