#include "plugins/nccl-tuner/tuner.h"
#include "plugins/nccl-tuner/tuner_abi.h"

namespace harmonaize::nccl_abi::tuner_v3 {
namespace {

ncclResult_t Init(size_t ranks, size_t hosts, Logger logger, void** context) {
  return InitTuner({.ranks = ranks, .hosts = hosts}, logger, context);
}

ncclResult_t GetCosts(void* context, int function, size_t bytes, int, TunerCosts costs,
                      int algorithms, int protocols, int* channels) {
  return AdjustCosts(context, function, bytes, costs, algorithms, protocols, channels);
}

}  // namespace
}  // namespace harmonaize::nccl_abi::tuner_v3

extern "C" {
/// What NCCL looks up in NCCL 2.22 and 2.23.
extern __attribute__((visibility("default"))) harmonaize::nccl_abi::TunerV3 ncclTunerPlugin_v3;
harmonaize::nccl_abi::TunerV3 ncclTunerPlugin_v3 = {
    harmonaize::nccl_abi::kTunerName,
    harmonaize::nccl_abi::tuner_v3::Init,
    harmonaize::nccl_abi::tuner_v3::GetCosts,
    harmonaize::nccl_abi::FinalizeTuner,
};
}
