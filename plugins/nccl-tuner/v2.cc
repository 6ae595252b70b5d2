#include "plugins/nccl-tuner/tuner.h"
#include "plugins/nccl-tuner/tuner_abi.h"

namespace harmonaize::nccl_abi::tuner_v2 {
namespace {

ncclResult_t Init(size_t ranks, size_t hosts, Logger logger, void** context) {
  return InitTuner({.ranks = ranks, .hosts = hosts}, logger, context);
}

ncclResult_t GetChoice(void* context, int function, size_t bytes, int has_collnet, int, int,
                       int* algorithm, int* protocol, int* channels) {
  return Choose(context, function, bytes, has_collnet != 0, algorithm, protocol, channels);
}

}  // namespace
}  // namespace harmonaize::nccl_abi::tuner_v2

extern "C" {
/// What NCCL looks up in NCCL 2.21.
extern __attribute__((visibility("default"))) harmonaize::nccl_abi::TunerV2 ncclTunerPlugin_v2;
harmonaize::nccl_abi::TunerV2 ncclTunerPlugin_v2 = {
    harmonaize::nccl_abi::kTunerName,
    harmonaize::nccl_abi::tuner_v2::Init,
    harmonaize::nccl_abi::tuner_v2::GetChoice,
    harmonaize::nccl_abi::FinalizeTuner,
};
}
