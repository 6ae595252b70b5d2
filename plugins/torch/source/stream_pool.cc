#include "plugins/torch/source/stream_pool.h"

#include "plugins/torch/source/errors.h"

namespace harmonaize_torch {
namespace {

// Bounds the streams of a process: half of the 1024 that a daemon gives one, the rest is the
// program's. Operations beyond it wait until others have ended.
constexpr int kMostStreams = 512;

}  // namespace

cudaStream_t StreamPool::Take() {
  const std::lock_guard lock(mutex_);
  if (in_use_ >= kMostStreams) return nullptr;
  cudaStream_t stream = TakeIdle();
  if (stream == nullptr) Check("Making a host stream", Library::Get().hzStreamCreate(&stream));
  ++in_use_;
  return stream;
}

// The daemon may have been restarted while no operation was there to fail.
cudaStream_t StreamPool::TakeIdle() {
  while (!idle_.empty()) {
    cudaStream_t const stream = idle_.back();
    idle_.pop_back();
    if (Library::Get().hzStreamQuery(stream) == ncclSuccess) return stream;
    static_cast<void>(Library::Get().hzStreamDestroy(stream));
  }
  return nullptr;
}

void StreamPool::Give(cudaStream_t stream, bool failed) {
  const std::lock_guard lock(mutex_);
  --in_use_;
  // After a failure the daemon may be another one, which does not know the stream.
  if (failed) {
    for (cudaStream_t idle : idle_) static_cast<void>(Library::Get().hzStreamDestroy(idle));
    idle_.clear();
    static_cast<void>(Library::Get().hzStreamDestroy(stream));
  } else {
    idle_.push_back(stream);
  }
}

}  // namespace harmonaize_torch
