#include "plugins/nccl-profiler/v4.h"

#include "plugins/nccl-profiler/event_names.h"
#include "plugins/nccl-profiler/profiler.h"

namespace harmonaize::nccl_abi::profiler_v4 {
namespace {

ncclResult_t Init(void** context, int* mask, const char* communicator_name, uint64_t communicator,
                  int hosts, int ranks, int rank, Logger logger) {
  SetLogger(logger);
  InitProfiler(
      {.id = communicator, .name = communicator_name, .hosts = hosts, .ranks = ranks, .rank = rank},
      kEventsOfV4, context, mask);
  return ncclSuccess;
}

EventDescription Describe(const ProfilerEventV4& event) {
  switch (event.type) {
    case kProfileCollectives: {
      const auto& collective = event.collective;
      return {.kind = ProfileKind::kCollective,
              .function = FunctionOf(collective.function),
              .algorithm = AlgorithmOf(collective.algorithm),
              .protocol = ProtocolOf(collective.protocol),
              .kernels = collective.channels,
              .bytes = BytesOf(collective.count, collective.type)};
    }
    case kProfilePointToPoint:
      return {.kind = ProfileKind::kPointToPoint,
              .function = FunctionOf(event.p2p.function),
              .kernels = event.p2p.channels,
              .bytes = BytesOf(event.p2p.count, event.p2p.type)};
    case kProfileProxyOperations: return ProxyDescription(event);
    case kProfileProxySteps: return {.kind = ProfileKind::kProxyStep, .parent = event.parent};
    case kProfileProxyControl: return {.kind = ProfileKind::kProxyControl};
    case kProfileKernels:
      return {.kind = ProfileKind::kKernel, .timer = event.kernel.timer, .parent = event.parent};
    default: return {.kind = ProfileKind::kGroup};
  }
}

ncclResult_t Start(void* context, void** handle, ProfilerEventV4* event) {
  return StartEvent(context, handle, event, Describe);
}

ncclResult_t RecordState(void* handle, int state, ProfilerStateV4* arguments) {
  return RecordStateV4(handle, state, arguments);
}

ncclResult_t Finalize(void* context) {
  FinalizeProfiler(context);
  return ncclSuccess;
}

}  // namespace
}  // namespace harmonaize::nccl_abi::profiler_v4

extern "C" {
/// What NCCL looks up in NCCL 2.27.
extern __attribute__((visibility("default"))) harmonaize::nccl_abi::ProfilerV4 ncclProfiler_v4;
harmonaize::nccl_abi::ProfilerV4 ncclProfiler_v4 = {
    harmonaize::nccl_abi::kProfilerName,
    harmonaize::nccl_abi::profiler_v4::Init,
    harmonaize::nccl_abi::profiler_v4::Start,
    harmonaize::nccl_abi::StopEvent,
    harmonaize::nccl_abi::profiler_v4::RecordState,
    harmonaize::nccl_abi::profiler_v4::Finalize,
};
}
