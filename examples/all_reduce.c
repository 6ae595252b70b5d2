/// Every rank ends up with the sum of what all ranks had.
#include "example.h"

enum { kCount = 100003 };

int main(void) {
  const Place place = FindPlace();
  ncclComm_t comm = JoinAll(place);
  float* send = FloatBuffer(kCount, (float)(place.rank + 1));
  float* receive = FloatBuffer(kCount, 0);

  CHECK_NCCL(ncclAllReduce(send, receive, kCount, ncclFloat, ncclSum, comm, NULL));
  const float sum = (float)(place.ranks * (place.ranks + 1)) / 2;
  size_t wrong = CountWrong(receive, kCount, sum, place.rank);

  // In place: the buffer that is sent is the one that receives.
  CHECK_NCCL(ncclAllReduce(send, send, kCount, ncclFloat, ncclMax, comm, NULL));
  wrong += CountWrong(send, kCount, (float)place.ranks, place.rank);

  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
