/// Operations that run while the program does something else: a host stream of Harmonaize, in the
/// place where a program for GPUs passes a CUDA stream.
#include <harmonaize.h>

#include "example.h"

enum { kCount = 1000003, kSteps = 8 };

int main(void) {
  const Place place = FindPlace();
  ncclComm_t comm = JoinAll(place);
  cudaStream_t stream = NULL;
  CHECK_NCCL(hzStreamCreate(&stream));
  float* buffer = FloatBuffer(kCount, 1);

  // Each step works on what the one before left; the stream keeps them in order.
  for (int step = 0; step < kSteps; ++step) {
    CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclAvg, comm, stream));
    CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, stream));
  }
  unsigned long turns = 0;
  ncclResult_t state;
  while ((state = hzStreamQuery(stream)) == ncclInProgress) {
    ++turns;  // The program's own work would be here.
    usleep(100);
  }
  CHECK_NCCL(state);
  CHECK_NCCL(hzStreamSynchronize(stream));

  float expected = 1;
  for (int step = 0; step < kSteps; ++step) expected *= (float)place.ranks;
  const size_t wrong = CountWrong(buffer, kCount, expected, place.rank);
  free(buffer);
  CHECK_NCCL(hzStreamDestroy(stream));
  CHECK_NCCL(ncclCommDestroy(comm));
  return Finish(place.rank, wrong);
}
