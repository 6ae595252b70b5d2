// Closes the library while its thread copies. Its argument is the library's path.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/harmonaize.h"
#include "include/nccl.h"

static void* Find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found != NULL) return found;
  fprintf(stderr, "no %s: %s\n", name, dlerror());
  exit(1);
}

static void Expect(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %d\n", what, result);
  exit(1);
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  ncclResult_t (*init)(ncclComm_t*, int, const int*);
  ncclResult_t (*create)(cudaStream_t*);
  ncclResult_t (*reduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                         cudaStream_t);
  *(void**)&init = Find(library, "ncclCommInitAll");
  *(void**)&create = Find(library, "hzStreamCreate");
  *(void**)&reduce = Find(library, "ncclAllReduce");
  ncclComm_t comm = NULL;
  cudaStream_t stream = NULL;
  Expect(init(&comm, 1, NULL), "ncclCommInitAll");
  Expect(create(&stream), "hzStreamCreate");
  const size_t elements = 16 << 20;
  float* const data = calloc(elements, sizeof(float));
  if (data == NULL) return 1;
  Expect(reduce(data, data, elements, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
  dlclose(library);
  // For as long as the thread copies, and longer.
  usleep(300 * 1000);
  printf("closed\n");
  return 0;
}
