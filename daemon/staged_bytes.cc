#include "daemon/staged_bytes.h"

#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {
namespace {

/// The engine's thread sends and receives; a worker needs another one.
constexpr int64_t kProcessorsToCopyMeanwhile = 2;

}  // namespace

uint64_t StagedBytesAcrossHosts(int hosts, int64_t shared_processors, int64_t workers) {
  const int64_t processors = shared_processors > 0 ? shared_processors / hosts : workers;
  return processors < kProcessorsToCopyMeanwhile ? kCopyWithoutWorkersBytes : kCopyAcrossHostsBytes;
}

}  // namespace harmonaize::daemon
