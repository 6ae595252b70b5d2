/// Ranks of even and of odd number get a communicator of their own, and each sums its ranks.
#include "example.h"

enum { kCount = 100003 };

int main(void) {
  const Place place = FindPlace();
  ncclComm_t comm = JoinAll(place);
  ncclComm_t half = NULL;
  // Descending keys turn the order of ranks round.
  CHECK_NCCL(ncclCommSplit(comm, place.rank % 2, -place.rank, &half, NULL));

  int ranks = 0;
  int rank = -1;
  CHECK_NCCL(ncclCommCount(half, &ranks));
  CHECK_NCCL(ncclCommUserRank(half, &rank));
  float expected = 0;
  int greater = 0;
  for (int other = place.rank % 2; other < place.ranks; other += 2) {
    expected += (float)other;
    greater += other > place.rank;
  }
  float* buffer = FloatBuffer(kCount, (float)place.rank);
  CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, half, NULL));

  size_t wrong = CountWrong(buffer, kCount, expected, place.rank);
  wrong += rank != greater;
  wrong += ranks != (place.ranks + 1 - place.rank % 2) / 2;
  free(buffer);
  CHECK_NCCL(ncclCommDestroy(half));
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
