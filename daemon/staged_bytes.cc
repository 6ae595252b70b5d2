#include "daemon/staged_bytes.h"

#include "src/ipc/session_segment.h"
#include "src/planner/fabric_model.h"
#include "src/transport/congestion_control.h"

namespace harmonaize::daemon {
namespace {

/// The engine's thread sends and receives; a worker needs another one.
constexpr int64_t kProcessorsToCopyMeanwhile = 2;

bool AllLinksAreFast(const FabricModel& fabric) {
  for (int edge = 0; edge < fabric.edges(); ++edge) {
    if (fabric.BytesPerSecond(edge) < transport::kFastBytesPerSecond) return false;
  }
  return true;
}

}  // namespace

uint64_t StagedBytesAcrossHosts(const FabricModel* fabric, int64_t shared_processors,
                                int64_t workers) {
  if (fabric == nullptr || !AllLinksAreFast(*fabric)) return kCopyAcrossHostsBytes;
  const int64_t processors = shared_processors > 0 ? shared_processors / fabric->hosts() : workers;
  return processors < kProcessorsToCopyMeanwhile ? kCopyWithoutWorkersBytes : kCopyAcrossHostsBytes;
}

}  // namespace harmonaize::daemon
