/// Every rank sends a block of its own to every rank: a transposition of blocks.
#include "example.h"

enum { kCount = 20011 };

int main(void) {
  const Place place = FindPlace();
  ncclComm_t comm = JoinAll(place);
  const size_t total = (size_t)kCount * (size_t)place.ranks;
  float* send = FloatBuffer(total, 0);
  for (size_t i = 0; i < total; ++i) send[i] = (float)(place.rank * 100 + (int)(i / kCount));
  float* receive = FloatBuffer(total, -1);

  CHECK_NCCL(ncclAlltoAll(send, receive, kCount, ncclFloat, comm, NULL));

  size_t wrong = 0;
  for (int from = 0; from < place.ranks; ++from) {
    wrong += CountWrong(receive + (size_t)from * kCount, kCount, (float)(from * 100 + place.rank),
                        place.rank);
  }
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
