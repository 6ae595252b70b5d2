/// Block r of the sum of all ranks' blocks ends up on rank r.
#include "example.h"

enum { kCount = 30011 };

int main(void) {
  const Place place = FindPlace();
  ncclComm_t comm = JoinAll(place);
  float* send = FloatBuffer((size_t)kCount * (size_t)place.ranks, 0);
  for (int block = 0; block < place.ranks; ++block) {
    for (size_t i = 0; i < kCount; ++i) {
      send[(size_t)block * kCount + i] = (float)(block * 10 + place.rank);
    }
  }
  float* receive = FloatBuffer(kCount, -1);

  CHECK_NCCL(ncclReduceScatter(send, receive, kCount, ncclFloat, ncclSum, comm, NULL));

  const int rank_sum = place.ranks * (place.ranks - 1) / 2;
  const float expected = (float)(place.ranks * place.rank * 10 + rank_sum);
  const size_t wrong = CountWrong(receive, kCount, expected, place.rank);
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
