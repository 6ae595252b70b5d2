// Stands in for stock NCCL: carries small all-reduces of floats between processes of one host, over
// shared memory, and counts the calls. It is not for use by more than one rank of a thread.

#include "include/nccl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

constexpr int kMostRanks = 8;
constexpr size_t kMostElements = 256;

/// What the ranks of a communicator share; a new file is all zeros.
struct Shared {
  std::atomic<int> arrived;
  std::atomic<int> turn;
  std::atomic<int> aborted;
  int colors[kMostRanks];
  int keys[kMostRanks];
  float data[kMostRanks][kMostElements];
  /// One message from each rank to each other one; 1 while it is there.
  std::atomic<int> full[kMostRanks][kMostRanks];
  float messages[kMostRanks][kMostRanks][kMostElements];
};

namespace {

std::mutex mutex;
std::map<std::string, int> counts;
thread_local std::string last_error;
thread_local int depth = 0;
// Of the group that is open. Sends run first, because a receive waits for one.
thread_local std::vector<std::function<ncclResult_t()>> noted_sends;
thread_local std::vector<std::function<ncclResult_t()>> noted;

void Note(const char* call) {
  const std::lock_guard lock(mutex);
  ++counts[call];
}

ncclResult_t Refuse(ncclResult_t result, const char* why) {
  last_error = why;
  return result;
}

Shared* Map(const std::string& name) {
  const int file = shm_open(("/" + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return nullptr;
  void* const place = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return place == MAP_FAILED ? nullptr : static_cast<Shared*>(place);
}

bool HasContext() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const auto get = driver == nullptr
                       ? nullptr
                       : reinterpret_cast<int (*)(void**)>(dlsym(driver, "cuCtxGetCurrent"));
  void* context = nullptr;
  return get != nullptr && get(&context) == 0 && context != nullptr;
}

ncclResult_t RunOrNote(std::function<ncclResult_t()> body, bool is_send = false) {
  if (depth == 0) return body();
  (is_send ? noted_sends : noted).push_back(std::move(body));
  return ncclSuccess;
}

/// Waits until a message is there, or is not.
ncclResult_t AwaitMessage(const Shared& shared, const std::atomic<int>& full, int wanted) {
  while (full.load() != wanted) {
    if (shared.aborted.load() != 0) return Refuse(ncclRemoteError, "aborted in the stand-in");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return ncclSuccess;
}

}  // namespace

struct ncclComm {
  std::string name;
  int ranks;
  int rank;
  int splits = 0;
  Shared* shared;

  /// Waits for all ranks.
  ncclResult_t Meet() const {
    const int turn = shared->turn.load();
    if (shared->arrived.fetch_add(1) + 1 == ranks) {
      shared->arrived.store(0);
      shared->turn.fetch_add(1);
      return ncclSuccess;
    }
    while (shared->turn.load() == turn) {
      if (shared->aborted.load() != 0) return Refuse(ncclRemoteError, "aborted in the stand-in");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return ncclSuccess;
  }
};

extern "C" {

/// Number of calls of a function in this process.
int StandInCount(const char* call) {
  const std::lock_guard lock(mutex);
  return counts[call];
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 23007;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "an error of the stand-in";
}
const char* ncclGetLastError(ncclComm_t) {
  return last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Note("ncclGetUniqueId");
  std::random_device random;
  std::memset(id->internal, 0, sizeof id->internal);
  std::snprintf(id->internal, sizeof id->internal, "stand-in-%08x%08x", random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->shared->aborted.load() != 0 ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  Note("ncclCommInitRankConfig");
  if (!HasContext()) return Refuse(ncclUnhandledCudaError, "the thread has no context");
  if (std::strncmp(id.internal, "stand-in-", 9) != 0) return Refuse(ncclInvalidArgument, "no id");
  return RunOrNote([=] {
    auto* const comm = new ncclComm{id.internal, ranks, rank, 0, Map(id.internal)};
    *out = comm;
    if (comm->shared == nullptr) return Refuse(ncclSystemError, "no shared memory");
    const ncclResult_t met = comm->Meet();
    if (met != ncclSuccess) return met;
    shm_unlink(("/" + comm->name).c_str());
    // A call of its own interface by name, as the real one makes some: it must not leave this
    // library.
    ncclResult_t state = ncclInternalError;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    return asked != ncclSuccess ? Refuse(ncclInternalError, "a call of mine went astray") : state;
  });
}
ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  Note("ncclCommSplit");
  return RunOrNote([=] {
    parent->shared->colors[parent->rank] = color;
    parent->shared->keys[parent->rank] = key;
    if (const ncclResult_t met = parent->Meet(); met != ncclSuccess) return met;
    std::vector<std::pair<int, int>> members;
    for (int rank = 0; rank < parent->ranks; ++rank) {
      if (parent->shared->colors[rank] == color) {
        members.emplace_back(parent->shared->keys[rank], rank);
      }
    }
    std::sort(members.begin(), members.end());
    if (const ncclResult_t met = parent->Meet(); met != ncclSuccess) return met;
    const std::string name =
        parent->name + "-" + std::to_string(parent->splits++) + "-" + std::to_string(color);
    *out = nullptr;
    if (color < 0) return ncclSuccess;
    const auto own = std::find(members.begin(), members.end(), std::pair(key, parent->rank));
    *out = new ncclComm{name, static_cast<int>(members.size()),
                        static_cast<int>(own - members.begin()), 0, Map(name)};
    const ncclResult_t met = (*out)->Meet();
    shm_unlink(("/" + name).c_str());
    return met;
  });
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  Note("ncclAllReduce");
  if (type != ncclFloat || op != ncclSum || count > kMostElements) {
    return Refuse(ncclInvalidArgument, "the stand-in sums up to 256 floats");
  }
  return RunOrNote([=] {
    std::memcpy(comm->shared->data[comm->rank], send, count * sizeof(float));
    if (const ncclResult_t met = comm->Meet(); met != ncclSuccess) return met;
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int rank = 0; rank < comm->ranks; ++rank) sum += comm->shared->data[rank][i];
      static_cast<float*>(receive)[i] = sum;
    }
    return comm->Meet();
  });
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t) {
  Note("ncclSend");
  const auto body = [=] {
    std::atomic<int>& full = comm->shared->full[comm->rank][peer];
    if (const ncclResult_t empty = AwaitMessage(*comm->shared, full, 0); empty != ncclSuccess) {
      return empty;
    }
    std::memcpy(comm->shared->messages[comm->rank][peer], send, count * sizeof(float));
    full.store(1);
    return ncclSuccess;
  };
  return RunOrNote(body, true);
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t) {
  Note("ncclRecv");
  return RunOrNote([=] {
    std::atomic<int>& full = comm->shared->full[peer][comm->rank];
    if (const ncclResult_t there = AwaitMessage(*comm->shared, full, 1); there != ncclSuccess) {
      return there;
    }
    std::memcpy(receive, comm->shared->messages[peer][comm->rank], count * sizeof(float));
    full.store(0);
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  Note("ncclGroupStart");
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  Note("ncclGroupEnd");
  if (--depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (auto* const list : {&noted_sends, &noted}) {
    for (const auto& body : std::exchange(*list, {})) {
      const ncclResult_t one = body();
      if (result == ncclSuccess) result = one;
    }
  }
  return result;
}

ncclResult_t ncclCommFinalize(ncclComm_t) {
  Note("ncclCommFinalize");
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Note("ncclCommDestroy");
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  return ncclSuccess;
}
// Leaves the memory mapped: another thread may be on its way out.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Note("ncclCommAbort");
  comm->shared->aborted.store(1);
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t, int* device) {
  *device = 5;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  Note("ncclMemAlloc");
  *memory = std::malloc(bytes);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  Note("ncclMemFree");
  std::free(memory);
  return ncclSuccess;
}

}  // extern "C"
