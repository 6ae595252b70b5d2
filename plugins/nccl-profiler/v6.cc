#include "plugins/nccl-profiler/v6.h"

#include "plugins/nccl-profiler/event_names.h"
#include "plugins/nccl-profiler/profiler.h"

namespace harmonaize::nccl_abi::profiler_v6 {
namespace {

ncclResult_t Init(void** context, uint64_t communicator, int* mask, const char* communicator_name,
                  int hosts, int ranks, int rank, Logger logger) {
  SetLogger(logger);
  InitProfiler(
      {.id = communicator, .name = communicator_name, .hosts = hosts, .ranks = ranks, .rank = rank},
      kEventsOfV6, context, mask);
  return ncclSuccess;
}

EventDescription Describe(const ProfilerEventV6& event) {
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
    case kProfileCopyCollectives:
      return {.kind = ProfileKind::kCopyCollective,
              .function = FunctionOf(event.copy_collective.function),
              .bytes = BytesOf(event.copy_collective.count, event.copy_collective.type)};
    case kProfileCopySyncs: return {.kind = ProfileKind::kCopySync, .parent = event.parent};
    case kProfileCopyBatches:
      return {.kind = ProfileKind::kCopyBatch,
              .bytes = event.copy_batch.total_bytes,
              .parent = event.parent};
    default: return {.kind = ProfileKind::kGroup};
  }
}

ncclResult_t Start(void* context, void** handle, ProfilerEventV6* event) {
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
}  // namespace harmonaize::nccl_abi::profiler_v6

extern "C" {
/// What NCCL looks up in NCCL 2.29 and later.
extern __attribute__((visibility("default"))) harmonaize::nccl_abi::ProfilerV6 ncclProfiler_v6;
harmonaize::nccl_abi::ProfilerV6 ncclProfiler_v6 = {
    harmonaize::nccl_abi::kProfilerName,
    harmonaize::nccl_abi::profiler_v6::Init,
    harmonaize::nccl_abi::profiler_v6::Start,
    harmonaize::nccl_abi::StopEvent,
    harmonaize::nccl_abi::profiler_v6::RecordState,
    harmonaize::nccl_abi::profiler_v6::Finalize,
};
}
