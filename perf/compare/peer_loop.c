#include "perf/compare/peer_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct Request {
  struct PeerWork work;
  int iterations;
  int warmup;
};

struct Answer {
  int unsupported;
  double time_us;
  long wrong;
};

float* PeerAllocateHeap(void* context, const struct PeerWork* work, int receives, size_t bytes) {
  (void)context, (void)work, (void)receives;
  void* memory = NULL;
  return posix_memalign(&memory, 4096, bytes) == 0 ? memory : NULL;
}

void PeerReleaseHeap(void* context, const struct PeerWork* work, float* buffer) {
  (void)context, (void)work;
  free(buffer);
}

static double NowMicroseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int Repeat(const struct PeerLibrary* library, struct PeerWork* work, int times) {
  for (int i = 0; i < times; ++i) {
    work->root = work->in_turns ? i % work->ranks : 0;
    if (library->run(library->context, work) != 0) return -1;
  }
  return 0;
}

static int Time(struct PeerTeam* team, const struct PeerLibrary* library, struct Request* request,
                struct Answer* answer) {
  struct PeerWork* work = &request->work;
  PeerTeamBarrier(team);
  if (Repeat(library, work, request->warmup) != 0) return -1;
  PeerTeamBarrier(team);
  const double start = NowMicroseconds();
  if (Repeat(library, work, request->iterations) != 0) return -1;
  answer->time_us = (NowMicroseconds() - start) / request->iterations;
  PeerTeamBarrier(team);
  answer->wrong = PeerCountWrong(work);
  return 0;
}

// Also the longest vector behind the last element may be read.
enum { kPadding = 64 };

static int Measure(struct PeerTeam* team, const struct PeerLibrary* library,
                   struct Request* request, struct Answer* answer) {
  struct PeerWork* work = &request->work;
  const size_t send_bytes = work->send_count * sizeof(float) + kPadding;
  const size_t recv_bytes = work->recv_count * sizeof(float) + kPadding;
  work->send = library->allocate(library->context, work, 0, send_bytes);
  work->recv = library->allocate(library->context, work, 1, recv_bytes);
  if (work->send == NULL || work->recv == NULL) {
    fprintf(stderr, "no memory for %zu bytes\n", send_bytes + recv_bytes);
    return -1;
  }
  memset(work->send, 0, send_bytes);
  memset(work->recv, 0, recv_bytes);
  for (size_t i = 0; i < work->send_count; ++i) work->send[i] = PeerInput(work->rank, i);

  const int prepared = library->prepare(library->context, work);
  answer->unsupported = prepared == kPeerUnsupported;
  int status = prepared == 0 ? Time(team, library, request, answer) : prepared;
  library->finish(library->context, work);
  // Nobody's memory goes while another may still look at it.
  PeerTeamBarrier(team);
  library->release(library->context, work, work->send);
  library->release(library->context, work, work->recv);
  return status == kPeerUnsupported ? 0 : status;
}

static int Parse(const char* line, const struct PeerTeam* team, struct Request* request,
                 size_t* bytes) {
  char collective[32];
  memset(request, 0, sizeof(*request));
  if (sscanf(line, "%31s %zu %d %d %31s", collective, bytes, &request->iterations, &request->warmup,
             request->work.variant) != 5) {
    return -1;
  }
  request->work.rank = team->rank;
  request->work.ranks = team->ranks;
  return PeerSetKind(&request->work, collective) == 0 && request->iterations > 0 ? 0 : -1;
}

int PeerServe(struct PeerTeam* team, const struct PeerLibrary* library) {
  FILE* requests = fdopen(team->driver, "r");
  char line[256];
  while (requests != NULL && fgets(line, sizeof(line), requests) != NULL) {
    struct Request request;
    struct Answer answer = {0};
    size_t bytes = 0;
    if (Parse(line, team, &request, &bytes) != 0) {
      fprintf(stderr, "not understood: %s", line);
      return 1;
    }
    if (!PeerLayOut(&request.work, bytes)) {
      answer.unsupported = 1;
    } else if (Measure(team, library, &request, &answer) != 0) {
      return 1;
    }
    if (answer.unsupported) {
      dprintf(team->driver, "{\"unsupported\": true}\n");
    } else {
      dprintf(team->driver, "{\"time_us\": %.5f, \"wrong\": %ld}\n", answer.time_us, answer.wrong);
    }
  }
  return requests != NULL ? 0 : 1;
}
