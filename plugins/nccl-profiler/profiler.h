#pragma once

#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"
#include "plugins/nccl-profiler/open_events.h"
#include "src/ipc/profile_record.h"

namespace harmonaize::nccl_abi {

// The profiler plugin behind all versions of NCCL's interface. Nothing here fails or throws, and
// only InitProfiler waits for the daemon. Without a daemon it asks NCCL for no events. Thread: any.

/// The name of the plugin in NCCL's log.
inline constexpr char kProfilerName[] = "Harmonaize";

/// What NCCL says of a communicator.
struct CommunicatorDescription {
  uint64_t id = 0;             ///< NCCL's hash of its id; 0: not known yet (TellCommunicator).
  const char* name = nullptr;  ///< May be NULL.
  int hosts = 0;               ///< 0: not known, as in versions 1 to 3.
  int ranks = 0;               ///< Likewise.
  int rank = -1;               ///< -1: likewise.
};

/// Makes a context for a communicator, and sets NCCL's activation mask to those events in `known`
/// that the provider wants. The context is NULL where it wants none, or no daemon answers. The
/// first call connects to the daemon and waits for its answer, which takes a few milliseconds.
void InitProfiler(const CommunicatorDescription& communicator, uint32_t known, void** context,
                  int* mask) noexcept;
/// Says which communicator a context is of, in versions that tell it with each event.
void TellCommunicator(void* context, uint64_t id, const char* name) noexcept;
void FinalizeProfiler(void* context) noexcept;

/// Returns whether the event, a bit of ProfileEvents, is to be begun. Any pointer may be passed.
bool WantsEvent(void* context, uint64_t event) noexcept;
/// Begins an event. Returns its handle; NULL if there is no place for it, and it is counted as
/// lost. Requires: WantsEvent.
void* BeginEvent(void* context, const EventDescription& event) noexcept;
/// These ignore what is no handle of an event that has begun and not ended.
ncclResult_t StopEvent(void* handle) noexcept;
void SetEventBytes(void* handle, uint64_t bytes) noexcept;
void SetEventTimer(void* handle, uint64_t timer) noexcept;

// What versions have in common.

/// Events of versions 1 to 3, whose kernels tell no times; of version 4; of 5; and of 6.
inline constexpr uint32_t kEventsOfV1 = kProfileGroups | kProfileCollectives |
                                        kProfilePointToPoint | kProfileProxyOperations |
                                        kProfileProxySteps | kProfileProxyControl;
inline constexpr uint32_t kEventsOfV4 = kEventsOfV1 | kProfileKernels;
inline constexpr uint32_t kEventsOfV5 = kEventsOfV4 | kProfileGroupCalls | kProfileCollectiveCalls |
                                        kProfilePointToPointCalls | kProfileKernelLaunches;
inline constexpr uint32_t kEventsOfV6 =
    kEventsOfV5 | kProfileCopyCollectives | kProfileCopySyncs | kProfileCopyBatches;

/// Describes the work of a proxy thread as all versions tell it. A parent of another process has
/// its handle from the same plugin there.
template <typename Event>
EventDescription ProxyDescription(const Event& event) {
  const auto& proxy = event.proxy;
  const uint64_t steps = proxy.steps > 0 ? static_cast<uint64_t>(proxy.steps) : 0;
  const uint64_t chunk = proxy.chunk_bytes > 0 ? static_cast<uint64_t>(proxy.chunk_bytes) : 0;
  return {.kind = proxy.is_send != 0 ? ProfileKind::kProxySend : ProfileKind::kProxyReceive,
          .bytes = steps * chunk,
          .parent = event.parent};
}

/// Begins the event that `Describe` makes of NCCL's, if it is wanted. Returns ncclSuccess always:
/// no trouble of the plugin's is a reason to fail a collective.
template <typename Event, typename Describe>
ncclResult_t StartEvent(void* context, void** handle, const Event* event,
                        const Describe& describe) noexcept {
  if (handle == nullptr) return ncclSuccess;
  *handle = nullptr;
  if (event == nullptr || !WantsEvent(context, event->type)) return ncclSuccess;
  *handle = BeginEvent(context, describe(*event));
  return ncclSuccess;
}

/// Notes a change of state as versions 1 to 3 tell it, and as later ones do.
template <typename Arguments>
ncclResult_t RecordStateV1(void* handle, int state, const Arguments* arguments) noexcept {
  // Sums of bytes come with the states of proxy operations.
  constexpr int kLastStateOfProxyOperations = 7;
  const bool tells_bytes = state >= 0 && state <= kLastStateOfProxyOperations;
  if (!tells_bytes || arguments == nullptr || arguments->proxy.transferred == 0) return ncclSuccess;
  SetEventBytes(handle, arguments->proxy.transferred);
  return ncclSuccess;
}
template <typename Arguments>
ncclResult_t RecordStateV4(void* handle, int state, const Arguments* arguments) noexcept {
  constexpr int kFirstStateOfSteps = 8;
  constexpr int kLastStateOfSteps = 12;
  constexpr int kStepWaitsForPeer = 20;
  constexpr int kKernelStopped = 22;
  if (arguments == nullptr) return ncclSuccess;
  if (state == kKernelStopped) SetEventTimer(handle, arguments->kernel.timer);
  const bool is_of_step =
      (state >= kFirstStateOfSteps && state <= kLastStateOfSteps) || state == kStepWaitsForPeer;
  if (is_of_step) SetEventBytes(handle, arguments->proxy_step.transferred);
  return ncclSuccess;
}

}  // namespace harmonaize::nccl_abi
