/// Rank r ends up with block r of what the root had. The others need no send buffer.
#include "example.h"

enum { kCount = 30011 };

int main(void) {
  const Place place = FindPlace();
  const int root = place.ranks - 1;
  ncclComm_t comm = JoinAll(place);
  const size_t total = (size_t)kCount * (size_t)place.ranks;
  float* send = place.rank == root ? FloatBuffer(total, 0) : NULL;
  for (size_t i = 0; place.rank == root && i < total; ++i) send[i] = (float)(i / kCount + 1);
  float* receive = FloatBuffer(kCount, 0);

  CHECK_NCCL(ncclScatter(send, receive, kCount, ncclFloat, root, comm, NULL));

  const size_t wrong = CountWrong(receive, kCount, (float)(place.rank + 1), place.rank);
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
