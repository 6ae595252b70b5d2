#include "plugins/nccl-profiler/v5.h"

#include "plugins/nccl-profiler/event_names.h"
#include "plugins/nccl-profiler/profiler.h"

namespace harmonaize::nccl_abi::profiler_v5 {
namespace {

ncclResult_t Init(void** context, uint64_t communicator, int* mask, const char* communicator_name,
                  int hosts, int ranks, int rank, Logger logger) {
  SetLogger(logger);
  InitProfiler(
      {.id = communicator, .name = communicator_name, .hosts = hosts, .ranks = ranks, .rank = rank},
      kEventsOfV5, context, mask);
  return ncclSuccess;
}

EventDescription Describe(const ProfilerEventV5& event) {
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
    case kProfileGroupCalls: return {.kind = ProfileKind::kGroupCall};
    case kProfileCollectiveCalls:
      return {.kind = ProfileKind::kCollectiveCall,
              .function = FunctionOf(event.collective_call.function),
              .bytes = BytesOf(event.collective_call.count, event.collective_call.type)};
    case kProfilePointToPointCalls:
      return {.kind = ProfileKind::kPointToPointCall,
              .function = FunctionOf(event.p2p_call.function),
              .bytes = BytesOf(event.p2p_call.count, event.p2p_call.type)};
    case kProfileKernelLaunches: return {.kind = ProfileKind::kKernelLaunch};
    default: return {.kind = ProfileKind::kGroup};
  }
}

ncclResult_t Start(void* context, void** handle, ProfilerEventV5* event) {
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
}  // namespace harmonaize::nccl_abi::profiler_v5

extern "C" {
/// What NCCL looks up in NCCL 2.28.
extern __attribute__((visibility("default"))) harmonaize::nccl_abi::ProfilerV5 ncclProfiler_v5;
harmonaize::nccl_abi::ProfilerV5 ncclProfiler_v5 = {
    harmonaize::nccl_abi::kProfilerName,
    harmonaize::nccl_abi::profiler_v5::Init,
    harmonaize::nccl_abi::profiler_v5::Start,
    harmonaize::nccl_abi::StopEvent,
    harmonaize::nccl_abi::profiler_v5::RecordState,
    harmonaize::nccl_abi::profiler_v5::Finalize,
};
}
