/// \file
/// What every example needs before it can show its collective: which rank it is, the id of the
/// communicator, buffers, and a verdict. Any NCCL program has these lines in one form or another.
#pragma once

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// Ends the program when an NCCL call fails, with NCCL's own explanation.
#define CHECK_NCCL(call)                                                                       \
  do {                                                                                         \
    ncclResult_t check_result = (call);                                                        \
    if (check_result != ncclSuccess) {                                                         \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, ncclGetErrorString(check_result), \
              ncclGetLastError(NULL));                                                         \
      exit(EXIT_FAILURE);                                                                      \
    }                                                                                          \
  } while (0)

/// This process's place among the others.
typedef struct {
  int rank;
  int ranks;
} Place;

static inline int NumberFromEnvironment(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

/// From the variables that torchrun and `harmonaize run` set; alone when there are none.
static inline Place FindPlace(void) {
  Place place = {NumberFromEnvironment("RANK", 0), NumberFromEnvironment("WORLD_SIZE", 1)};
  return place;
}

/// The id that rank 0 wrote to `path`; waits up to a minute for it.
static inline ncclUniqueId ExchangeIdByFile(const char* path, Place place) {
  ncclUniqueId id;
  if (place.rank == 0) {
    // Written under another name first: who sees the file sees all of it.
    char unfinished[4096];
    snprintf(unfinished, sizeof unfinished, "%s.part", path);
    CHECK_NCCL(ncclGetUniqueId(&id));
    FILE* file = fopen(unfinished, "wb");
    if (file == NULL || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 ||
        rename(unfinished, path) != 0) {
      perror(path);
      exit(EXIT_FAILURE);
    }
    return id;
  }
  for (int attempt = 0; attempt < 6000; ++attempt, usleep(10000)) {
    FILE* file = fopen(path, "rb");
    if (file == NULL) continue;
    const size_t read = fread(&id, sizeof id, 1, file);
    fclose(file);
    if (read == 1) return id;
  }
  fprintf(stderr, "rank %d: no id in %s\n", place.rank, path);
  exit(EXIT_FAILURE);
}

/// An id that all ranks share. In this order: through the file that NCCL_ID_FILE names (a new one
/// for every run); from NCCL_COMM_ID=host:port, with which every rank may call ncclGetUniqueId;
/// from the address that torchrun gives.
static inline ncclUniqueId ShareId(Place place) {
  ncclUniqueId id;
  const char* file = getenv("NCCL_ID_FILE");
  if (file != NULL) return ExchangeIdByFile(file, place);
  const char* address = getenv("MASTER_ADDR");
  const char* port = getenv("MASTER_PORT");
  if (place.ranks > 1 && getenv("NCCL_COMM_ID") == NULL && address != NULL && port != NULL) {
    char text[512];
    snprintf(text, sizeof text, "%s:%s", address, port);
    setenv("NCCL_COMM_ID", text, 1);
  }
  if (place.ranks > 1 && getenv("NCCL_COMM_ID") == NULL) {
    fprintf(stderr, "rank %d: set NCCL_COMM_ID=host:port or NCCL_ID_FILE\n", place.rank);
    exit(EXIT_FAILURE);
  }
  CHECK_NCCL(ncclGetUniqueId(&id));
  return id;
}

/// The communicator of all ranks.
static inline ncclComm_t JoinAll(Place place) {
  ncclComm_t comm = NULL;
  CHECK_NCCL(ncclCommInitRank(&comm, place.ranks, ShareId(place), place.rank));
  return comm;
}

/// `count` floats, all `value`. The caller frees them.
static inline float* FloatBuffer(size_t count, float value) {
  float* buffer = (float*)malloc((count > 0 ? count : 1) * sizeof(float));
  if (buffer == NULL) {
    perror("malloc");
    exit(EXIT_FAILURE);
  }
  for (size_t i = 0; i < count; ++i) buffer[i] = value;
  return buffer;
}

/// How many of `count` floats are not `expected`; tells of the first.
static inline size_t CountWrong(const float* buffer, size_t count, float expected, int rank) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (buffer[i] == expected) continue;
    if (wrong++ == 0) {
      fprintf(stderr, "rank %d: element %zu is %g, not %g\n", rank, i, (double)buffer[i],
              (double)expected);
    }
  }
  return wrong;
}

/// Prints the verdict, and gives the exit status of the program.
static inline int Finish(int rank, size_t wrong) {
  if (wrong == 0) {
    printf("rank %d: ok\n", rank);
  } else {
    printf("rank %d: %zu wrong\n", rank, wrong);
  }
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
