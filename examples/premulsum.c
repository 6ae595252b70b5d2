/// A weighted sum: every rank multiplies what it has by a factor of its own before the sum.
#include "example.h"

enum { kCount = 100003 };

int main(void) {
  const Place place = FindPlace();
  ncclComm_t comm = JoinAll(place);
  float weight = (float)(place.rank + 1);
  float* send = FloatBuffer(kCount, 2);
  float* receive = FloatBuffer(kCount, 0);

  ncclRedOp_t weighted_sum;
  CHECK_NCCL(
      ncclRedOpCreatePreMulSum(&weighted_sum, &weight, ncclFloat, ncclScalarHostImmediate, comm));
  CHECK_NCCL(ncclAllReduce(send, receive, kCount, ncclFloat, weighted_sum, comm, NULL));
  CHECK_NCCL(ncclRedOpDestroy(weighted_sum, comm));

  const float expected = (float)(place.ranks * (place.ranks + 1));
  const size_t wrong = CountWrong(receive, kCount, expected, place.rank);
  free(send);
  free(receive);
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
