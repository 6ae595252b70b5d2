// Calls of newer NCCL that Harmonaize does not have. Each returns an error that names the way out;
// that the symbols exist lets programs start which link to them.

#include <cstddef>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "src/base/status.h"

namespace harmonaize::shim {
namespace {

ncclResult_t RefuseOneSided(const char* function) {
  return Call(function, nullptr, [] {
    return NotServed("one-sided operations",
                     "send with ncclSend, and receive with ncclRecv, in one group");
  });
}

/// The start of the structure, which is the same in every version.
Status CheckEncryption(const ncclEncryptionConfig_t* config) {
  HZ_RETURN_IF_ERROR(CheckPointer(config, "config"));
  constexpr unsigned kEncryptionMagic = 0xcafebeef;
  constexpr size_t kLeastBytes = offsetof(ncclEncryptionConfig_t, mode) + sizeof config->mode;
  if (config->magic != kEncryptionMagic || config->size < kLeastBytes) {
    return InvalidArgument("config was not initialized with NCCL_ENCRYPTION_CONFIG_INITIALIZER");
  }
  if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return Status::Ok();
  return NotServed("encryption by a key of the program",
                   "traffic between hosts belongs to the provider's daemons, so ask the provider, "
                   "and pass NCCL_ENCRYPTION_MODE_NONE");
}

}  // namespace
}  // namespace harmonaize::shim

using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclResult_t, ncclPutSignal, const void* localbuff, size_t count,
            ncclDataType_t datatype, int peer, ncclWindow_t peerWin, size_t peerWinOffset,
            int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclPutSignal, localbuff, count, datatype, peer, peerWin, peerWinOffset, sigIdx, ctx,
             flags, comm, stream);
  HZ_CARRY(ncclPutSignal, comm, localbuff, count, datatype, peer, peerWin, peerWinOffset, sigIdx,
           ctx, flags, carried, stream);
  return RefuseOneSided("ncclPutSignal");
}

HZ_NCCL_API(ncclResult_t, ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags,
            ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclSignal, peer, sigIdx, ctx, flags, comm, stream);
  HZ_CARRY(ncclSignal, comm, peer, sigIdx, ctx, flags, carried, stream);
  return RefuseOneSided("ncclSignal");
}

HZ_NCCL_API(ncclResult_t, ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs,
            ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclWaitSignal, nDesc, signalDescs, comm, stream);
  HZ_CARRY(ncclWaitSignal, comm, nDesc, signalDescs, carried, stream);
  return RefuseOneSided("ncclWaitSignal");
}

HZ_NCCL_API(ncclResult_t, ncclSetEncryption, const ncclEncryptionConfig_t* config) {
  HZ_FORWARD(ncclSetEncryption, config);
  return Call("ncclSetEncryption", nullptr, [config] { return CheckEncryption(config); });
}
