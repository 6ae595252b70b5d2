/// Every rank ends up with the blocks of all ranks, in the order of ranks.
#include "example.h"

enum { kCount = 30011 };

int main(void) {
  const Place place = FindPlace();
  ncclComm_t comm = JoinAll(place);
  float* send = FloatBuffer(kCount, (float)(place.rank + 1));
  float* receive = FloatBuffer((size_t)kCount * (size_t)place.ranks, 0);

  CHECK_NCCL(ncclAllGather(send, receive, kCount, ncclFloat, comm, NULL));

  size_t wrong = 0;
  for (int rank = 0; rank < place.ranks; ++rank) {
    wrong += CountWrong(receive + (size_t)rank * kCount, kCount, (float)(rank + 1), place.rank);
  }
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
