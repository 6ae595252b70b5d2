#include "plugins/nccl-abi/env.h"
#include "plugins/nccl-env/environment.h"

namespace harmonaize::nccl_env {
namespace {

ncclResult_t Init(uint8_t /*major*/, uint8_t /*minor*/, uint8_t /*patch*/, const char* /*suffix*/) {
  // Another plugin of this library may have been given NCCL's log; this interface gives none.
  Begin();
  return ncclSuccess;
}

}  // namespace
}  // namespace harmonaize::nccl_env

extern "C" __attribute__((visibility("default")))
const harmonaize::nccl_abi::EnvV1 ncclEnvPlugin_v1 = {
    .name = "Harmonaize",
    .init = harmonaize::nccl_env::Init,
    .finalize = harmonaize::nccl_env::Finalize,
    .get_env = harmonaize::nccl_env::GetEnv,
};
