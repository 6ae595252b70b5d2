/// The root ends up with the average of what all ranks had. The others need no receive buffer.
#include "example.h"

enum { kCount = 100003 };

int main(void) {
  const Place place = FindPlace();
  const int root = place.ranks - 1;
  ncclComm_t comm = JoinAll(place);
  float* send = FloatBuffer(kCount, (float)(2 * place.rank));
  float* receive = place.rank == root ? FloatBuffer(kCount, -1) : NULL;

  CHECK_NCCL(ncclReduce(send, receive, kCount, ncclFloat, ncclAvg, root, comm, NULL));

  size_t wrong = CountWrong(send, kCount, (float)(2 * place.rank), place.rank);
  if (place.rank == root) {
    wrong += CountWrong(receive, kCount, (float)(place.ranks - 1), place.rank);
  }
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
