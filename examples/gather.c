/// The root ends up with the blocks of all ranks. The others need no receive buffer.
#include "example.h"

enum { kCount = 30011 };

int main(void) {
  const Place place = FindPlace();
  const int root = 0;
  ncclComm_t comm = JoinAll(place);
  float* send = FloatBuffer(kCount, (float)(place.rank + 1));
  float* receive = place.rank == root ? FloatBuffer((size_t)kCount * (size_t)place.ranks, 0) : NULL;

  CHECK_NCCL(ncclGather(send, receive, kCount, ncclFloat, root, comm, NULL));

  size_t wrong = 0;
  for (int rank = 0; place.rank == root && rank < place.ranks; ++rank) {
    wrong += CountWrong(receive + (size_t)rank * kCount, kCount, (float)(rank + 1), place.rank);
  }
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
