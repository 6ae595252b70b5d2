// The calls that need neither a communicator nor the daemon: version, errors, logging.

#include "include/nccl.h"

#include "shim/debug_log.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/base/status.h"

using harmonaize::Status;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclResult_t, ncclGetVersion, int* version) {
  HZ_FORWARD(ncclGetVersion, version);
  return Call("ncclGetVersion", nullptr, [&] {
    HZ_RETURN_IF_ERROR(CheckPointer(version, "version"));
    *version = NCCL_VERSION_CODE;
    return Status::Ok();
  });
}

HZ_NCCL_API(const char*, ncclGetErrorString, ncclResult_t result) {
  switch (Number(result)) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "CUDA error";
    case ncclSystemError: return "system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "a remote process or the daemon is gone";
    case ncclInProgress: return "operation in progress";
    // ncclTimeout of NCCL 2.30, which only stock NCCL returns.
    case 8: return "timed out";
    default: return "unknown result code";
  }
}

HZ_NCCL_API(const char*, ncclGetLastError, ncclComm_t comm) {
  HZ_FORWARD_IF_DECIDED(ncclGetLastError, comm);
  return LastErrorText(comm);
}

HZ_NCCL_API(void, ncclResetDebugInit) {
  ReadDebugEnvironment();
  // Written without the macro, which would name a function that the header calls deprecated.
  if (route.load(std::memory_order_acquire) == Route::kStock) {
    static const StockFunction<void()> stock("ncclResetDebugInit");
    stock();
  }
}

// Exported by NCCL beside the call above, for the libraries that NVIDIA ships with it.
extern "C" [[gnu::visibility("default")]] void ncclResetDebugInitInternal();
extern "C" void ncclResetDebugInitInternal() {
  harmonaize::shim::ReadDebugEnvironment();
}
