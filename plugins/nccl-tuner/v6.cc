#include "plugins/nccl-tuner/tuner.h"
#include "plugins/nccl-tuner/tuner_abi.h"

namespace harmonaize::nccl_abi::tuner_v6 {
namespace {

ncclResult_t Init(void** context, uint64_t communicator, size_t ranks, size_t hosts, Logger logger,
                  void*, void*) {
  return InitTuner({.id = communicator, .ranks = ranks, .hosts = hosts}, logger, context);
}

ncclResult_t GetCosts(void* context, int function, size_t bytes, int, TunerCosts costs,
                      int algorithms, int protocols, int, int* channels) {
  return AdjustCosts(context, function, bytes, costs, algorithms, protocols, channels);
}

}  // namespace
}  // namespace harmonaize::nccl_abi::tuner_v6

extern "C" {
/// What NCCL looks up in NCCL 2.30 and later.
extern __attribute__((visibility("default"))) harmonaize::nccl_abi::TunerV6 ncclTunerPlugin_v6;
harmonaize::nccl_abi::TunerV6 ncclTunerPlugin_v6 = {
    harmonaize::nccl_abi::kTunerName,
    harmonaize::nccl_abi::tuner_v6::Init,
    harmonaize::nccl_abi::tuner_v6::GetCosts,
    harmonaize::nccl_abi::FinalizeTuner,
    nullptr,
};
}
