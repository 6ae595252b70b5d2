#include "plugins/nccl-profiler/v1.h"

#include "plugins/nccl-profiler/event_names.h"
#include "plugins/nccl-profiler/profiler.h"

namespace harmonaize::nccl_abi::profiler_v1 {
namespace {

ncclResult_t Init(void** context, int* mask) {
  InitProfiler({}, kEventsOfV1, context, mask);
  return ncclSuccess;
}

EventDescription Describe(void* context, const ProfilerEventV1& event) {
  switch (event.type) {
    case kProfileCollectives: {
      const auto& collective = event.collective;
      TellCommunicator(context, collective.communicator, collective.name);
      return {.kind = ProfileKind::kCollective,
              .function = FunctionOf(collective.function),
              .algorithm = AlgorithmOf(collective.algorithm),
              .protocol = ProtocolOf(collective.protocol),
              .bytes = BytesOf(collective.count, collective.type)};
    }
    case kProfilePointToPoint:
      TellCommunicator(context, event.p2p.communicator, event.p2p.name);
      return {.kind = ProfileKind::kPointToPoint,
              .function = FunctionOf(event.p2p.function),
              .bytes = BytesOf(event.p2p.count, event.p2p.type)};
    case kProfileProxyOperations: return ProxyDescription(event);
    case kProfileProxySteps: return {.kind = ProfileKind::kProxyStep, .parent = event.parent};
    case kProfileProxyControl: return {.kind = ProfileKind::kProxyControl};
    default: return {.kind = ProfileKind::kGroup};
  }
}

ncclResult_t Start(void* context, void** handle, ProfilerEventV1* event) {
  return StartEvent(context, handle, event,
                    [context](const ProfilerEventV1& one) { return Describe(context, one); });
}

ncclResult_t RecordState(void* handle, int state, ProfilerStateV1* arguments) {
  return RecordStateV1(handle, state, arguments);
}

ncclResult_t Finalize(void* context) {
  FinalizeProfiler(context);
  return ncclSuccess;
}

}  // namespace
}  // namespace harmonaize::nccl_abi::profiler_v1

extern "C" {
/// What NCCL looks up in NCCL 2.23.
extern __attribute__((visibility("default"))) harmonaize::nccl_abi::ProfilerV1 ncclProfiler_v1;
harmonaize::nccl_abi::ProfilerV1 ncclProfiler_v1 = {
    harmonaize::nccl_abi::kProfilerName,
    harmonaize::nccl_abi::profiler_v1::Init,
    harmonaize::nccl_abi::profiler_v1::Start,
    harmonaize::nccl_abi::StopEvent,
    harmonaize::nccl_abi::profiler_v1::RecordState,
    harmonaize::nccl_abi::profiler_v1::Finalize,
};
}
