// A program that its owner lets others run in his name: prints why it has no unique id.

#include <cstdio>

#include "nccl.h"

int main() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  std::printf("%d: %s\n", result, ncclGetLastError(nullptr));
  std::fflush(stdout);
  return 0;
}
