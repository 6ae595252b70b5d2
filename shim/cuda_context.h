#pragma once

#include "src/base/status.h"

namespace harmonaize::shim {

/// The CUDA context with which a thread would use the GPU. Asks the CUDA driver that the process
/// has loaded, and loads none itself.
class CudaContext {
 public:
  /// Returns the context that is current in the calling thread. Where none is, but a device has its
  /// primary context in use, the context is usable, and left to stock NCCL to choose.
  static CudaContext OfThisThread();

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
