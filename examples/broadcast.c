/// Every rank ends up with what the root had.
#include "example.h"

enum { kCount = 100003 };

int main(void) {
  const Place place = FindPlace();
  const int root = place.ranks / 2;
  ncclComm_t comm = JoinAll(place);
  float* send = place.rank == root ? FloatBuffer(kCount, 42) : NULL;
  float* receive = FloatBuffer(kCount, 0);

  CHECK_NCCL(ncclBroadcast(send, receive, kCount, ncclFloat, root, comm, NULL));
  size_t wrong = CountWrong(receive, kCount, 42, place.rank);

  // The same with one buffer a rank, by NCCL's older name.
  float* buffer = FloatBuffer(kCount, place.rank == root ? 7 : 0);
  CHECK_NCCL(ncclBcast(buffer, kCount, ncclFloat, root, comm, NULL));
  wrong += CountWrong(buffer, kCount, 7, place.rank);

  free(send);
  free(receive);
  free(buffer);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
