// Tells that it was loaded, and passes for NCCL.

#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void Tell(void) {
  const int file = open("/tmp/loaded", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (file >= 0) close(file);
}

int ncclCommInitRank(void);
int ncclCommInitRank(void) {
  return 1;
}

int ncclGetUniqueId(void);
int ncclGetUniqueId(void) {
  return 1;
}
