// Passes for stock NCCL: notes the name of each call, and answers ncclRemoteError, which no working
// library would.

#include <cstddef>
#include <mutex>
#include <string>

#include "include/nccl.h"

namespace {

std::mutex mutex;
std::string calls;

ncclResult_t Note(const char* name) {
  const std::lock_guard lock(mutex);
  calls += name;
  calls += ' ';
  return ncclRemoteError;
}

}  // namespace

/// Names of all calls so far, in order.
extern "C" const char* FakeStockCalls() {
  const std::lock_guard lock(mutex);
  return calls.c_str();
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22703;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  id->internal[0] = 'F';
  return Note("ncclGetUniqueId");
}
const char* ncclGetLastError(ncclComm_t) {
  return "the fake's last error";
}

// The arguments arrive whole: in registers, on the stack, and a structure by value.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  *comm = reinterpret_cast<ncclComm_t>(comm);
  const bool whole = ranks == 3 && rank == 2 && id.internal[0] == 'F' && id.internal[127] == 'L';
  return Note(whole ? "ncclCommInitRank" : "ncclCommInitRank:wrong");
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t, cudaStream_t stream) {
  const bool whole = send == receive && count == 5 && type == ncclInt64 && op == ncclMin &&
                     root == 1 && stream == receive;
  return Note(whole ? "ncclReduce" : "ncclReduce:wrong");
}

ncclResult_t ncclCommInitAll(ncclComm_t*, int, const int*) {
  return Note("ncclCommInitAll");
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  return Note("ncclCommDestroy");
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  return Note("ncclCommAbort");
}
ncclResult_t ncclCommCount(const ncclComm_t, int*) {
  return Note("ncclCommCount");
}
ncclResult_t ncclMemAlloc(void**, size_t) {
  return Note("ncclMemAlloc");
}
ncclResult_t ncclMemFree(void*) {
  return Note("ncclMemFree");
}
ncclResult_t ncclGroupStart() {
  return Note("ncclGroupStart");
}
ncclResult_t ncclGroupEnd() {
  return Note("ncclGroupEnd");
}

struct FakeTeam {
  int ranks, rank, stride;
};
FakeTeam ncclTeamWorld(ncclComm_t) {
  Note("ncclTeamWorld");
  return {11, 12, 13};
}

}  // extern "C"
