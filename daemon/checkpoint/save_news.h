#pragma once

#include <cstdint>

#include "daemon/checkpoint/round_storage.h"
#include "daemon/job_events/job_events.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// What jobs hear of the checkpoints that the daemon keeps and stores, as events.

/// A checkpoint that is in memory.
struct SaveInMemory {
  uint64_t step = 0;
  bool at_peer = false;  ///< In that of other hosts, too.
  uint64_t bytes = 0;
  double took_seconds = 0;
  double stall_seconds = 0;
};
JobEvents::News NewsOfMemory(const SaveInMemory& save);

/// A checkpoint that was stored in the provider's store, or was not. What the system says of the
/// provider's folder is not told.
JobEvents::News NewsOfStore(const RoundToStore& round, const Status& status, double took_seconds);

}  // namespace harmonaize::daemon
