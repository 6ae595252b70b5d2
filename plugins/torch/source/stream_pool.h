#pragma once

#include <mutex>
#include <vector>

#include "plugins/torch/source/library.h"

namespace harmonaize_torch {

/// The host streams of this process. Each operation in flight has one to itself, so that its end
/// and its error are known apart from those of others, and nothing waits behind it. Thread: any.
class StreamPool {
 public:
  /// Returns a stream with nothing on it, or nullptr while as many are in use as may be.
  /// Throws: BackendError when no daemon listens.
  cudaStream_t Take();

  /// Takes a stream back. With `failed`, the stream is not used again.
  /// Requires: the operation on it has ended.
  void Give(cudaStream_t stream, bool failed);

 private:
  /// Returns an idle stream of the present daemon, or nullptr. Requires: mutex_ is held.
  cudaStream_t TakeIdle();

  std::mutex mutex_;
  std::vector<cudaStream_t> idle_;
  int in_use_ = 0;
};

}  // namespace harmonaize_torch
