#pragma once

#include "src/base/status.h"

namespace harmonaize::shim {

/// The CUDA context with which a thread would use the GPU. Asks the CUDA driver that the process
/// has loaded, and loads none itself.
class CudaContext {
 public:
  /// Returns the context that is current in the calling thread. Where none is, but a device has its
  /// primary context in use, the context is usable, and left to stock NCCL to choose. In a thread
  /// whose data lies in host memory no context is usable.
  static CudaContext OfThisThread();

  /// Says whether the calling thread's data lies in host memory, whatever GPUs the process uses
  /// (hzUseHostMemory). Returns what was said before.
  static bool SetUsesHostMemory(bool host);

  /// Returns whether the process uses a GPU.
  bool usable() const { return usable_; }
  /// Makes the context current in the calling thread, if the thread had one. Errors:
  /// kSystemError with the driver's number.
  Status MakeCurrent() const;

 private:
  void* context_ = nullptr;
  bool usable_ = false;
};

}  // namespace harmonaize::shim
