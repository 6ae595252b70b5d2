// harmonaize.h.

#include <fmt/format.h>

#include "include/harmonaize.h"
#include "shim/cuda_context.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/base/status.h"
#include "src/client/operation/stream.h"

namespace harmonaize::shim {
namespace {

/// Runs `body` on a host stream.
template <typename Body>
ncclResult_t CallOnStream(const char* function, cudaStream_t handle, Body&& body) {
  return Call(function, nullptr, [&]() -> Status {
    HostStream* const stream = handle == nullptr ? nullptr : HostStream::From(handle);
    if (stream != nullptr) return body(stream);
    return InvalidArgument("stream {} was not made by hzStreamCreate, or was destroyed",
                           fmt::ptr(handle));
  });
}

Status Create(cudaStream_t* out) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "stream"));
  *out = nullptr;
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which has no host streams");
  HZ_ASSIGN_OR_RETURN(HostStream* const stream, HostStream::Create());
  *out = reinterpret_cast<cudaStream_t>(stream);
  return Status::Ok();
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::HostStream;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_API(const char*) hzGetVersion() {
  return HARMONAIZE_VERSION;
}

HZ_API(int) hzUseHostMemory(int host) {
  return CudaContext::SetUsesHostMemory(host != 0) ? 1 : 0;
}

HZ_API(ncclResult_t) hzStreamCreate(cudaStream_t* stream) {
  return Call("hzStreamCreate", nullptr, [&] { return Create(stream); });
}

HZ_API(ncclResult_t) hzStreamDestroy(cudaStream_t stream) {
  return CallOnStream("hzStreamDestroy", stream,
                      [](HostStream* ours) { return HostStream::Destroy(ours); });
}

HZ_API(ncclResult_t) hzStreamQuery(cudaStream_t stream) {
  return CallOnStream("hzStreamQuery", stream, [](HostStream* ours) { return ours->Query(); });
}

HZ_API(ncclResult_t) hzStreamSynchronize(cudaStream_t stream) {
  return CallOnStream("hzStreamSynchronize", stream,
                      [](HostStream* ours) { return ours->Synchronize(); });
}
