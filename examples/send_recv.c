/// A ring: every rank sends to the next one and receives from the one before. Both are in one
/// group, as each waits for the other.
#include "example.h"

enum { kCount = 50021 };

int main(void) {
  const Place place = FindPlace();
  const int next = (place.rank + 1) % place.ranks;
  const int previous = (place.rank + place.ranks - 1) % place.ranks;
  ncclComm_t comm = JoinAll(place);
  float* send = FloatBuffer(kCount, (float)(place.rank + 1));
  float* receive = FloatBuffer(kCount, 0);

  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclSend(send, kCount, ncclFloat, next, comm, NULL));
  CHECK_NCCL(ncclRecv(receive, kCount, ncclFloat, previous, comm, NULL));
  CHECK_NCCL(ncclGroupEnd());

  const size_t wrong = CountWrong(receive, kCount, (float)(previous + 1), place.rank);
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
