#pragma once

#include <harmonaize.h>
#include <nccl.h>

#include <string>

// Each function of the public headers that the plugin calls.
#define HARMONAIZE_TORCH_CALLS(CALL) \
  CALL(hzGetVersion)                 \
  CALL(hzLostRanks)                  \
  CALL(hzStreamCreate)               \
  CALL(hzStreamDestroy)              \
  CALL(hzStreamQuery)                \
  CALL(hzStreamSynchronize)          \
  CALL(ncclGetErrorString)           \
  CALL(ncclGetLastError)             \
  CALL(ncclGetUniqueId)              \
  CALL(ncclCommInitRankConfig)       \
  CALL(ncclCommShrink)               \
  CALL(ncclCommRevoke)               \
  CALL(ncclCommDestroy)              \
  CALL(ncclCommAbort)                \
  CALL(ncclCommGetAsyncError)        \
  CALL(hzUseHostMemory)              \
  CALL(ncclMemAlloc)                 \
  CALL(ncclMemFree)                  \
  CALL(ncclRedOpCreatePreMulSum)     \
  CALL(ncclRedOpDestroy)             \
  CALL(ncclAllReduce)                \
  CALL(ncclReduce)                   \
  CALL(ncclBroadcast)                \
  CALL(ncclAllGather)                \
  CALL(ncclReduceScatter)            \
  CALL(ncclAlltoAll)                 \
  CALL(ncclGather)                   \
  CALL(ncclScatter)                  \
  CALL(ncclSend)                     \
  CALL(ncclRecv)                     \
  CALL(ncclGroupStart)               \
  CALL(ncclGroupEnd)

namespace harmonaize_torch {

/// Harmonaize's library, as a table of its functions.
///
/// The plugin does not link with it: PyTorch's own libraries bring NVIDIA's libnccl.so.2 into the
/// process, and the loader would take that one for ours, because both have this name. The library
/// is opened by its path, and its symbols stay out of the way of others.
class Library {
 public:
  /// Returns the library, which stays open until the process ends. Thread: any.
  /// Throws: c10::Error, which lists the places that were tried, when it cannot be opened.
  static const Library& Get();

  /// The file that was opened.
  const std::string& path() const { return path_; }

#define HARMONAIZE_TORCH_MEMBER(name) decltype(&::name) name = nullptr;
  HARMONAIZE_TORCH_CALLS(HARMONAIZE_TORCH_MEMBER)
#undef HARMONAIZE_TORCH_MEMBER

 private:
  Library();

  std::string path_;
};

/// While there is one, communicators and memory of this thread are the daemon's, also in a process
/// that uses GPUs.
class InHostMemory {
 public:
  InHostMemory() : before_(Library::Get().hzUseHostMemory(1)) {}
  ~InHostMemory() { Library::Get().hzUseHostMemory(before_); }
  InHostMemory(const InHostMemory&) = delete;
  InHostMemory& operator=(const InHostMemory&) = delete;

 private:
  const int before_;
};

}  // namespace harmonaize_torch
