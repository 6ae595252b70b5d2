// What somebody else's program sees of an installation: both headers, in C, and the library.
#include <harmonaize.h>
#include <nccl.h>
#include <stdio.h>

int main(void) {
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  printf("NCCL %d: %s\n", version, ncclGetErrorString(result));
  return result == ncclSuccess && version >= 22800 ? 0 : 1;
}
