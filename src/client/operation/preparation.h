#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/client/memory/buffer_probe.h"
#include "src/client/operation/prepared_operation.h"

namespace harmonaize {

/// Finds the buffers of one launch's operations, and how their data gets to the daemon: it lies in
/// a region, or it is private. Private data is staged as a whole at once, or copied through windows
/// later. A thread keeps it from launch to launch, so the steady state allocates nothing.
class Preparation {
 public:
  /// Prepares the operations, in order, and lists the queues that they go to. Waits for operations
  /// before these where data can only be copied once those are done. Errors: kInvalidArgument for
  /// sizes and memory that cannot be, kSystemError where there is no memory for copies, and those
  /// of waiting.
  Status Prepare(std::span<const Operation> operations, std::vector<PreparedOperation>* prepared,
                 std::vector<QueueUse>* queues);

 private:
  Status Locate(const Operation& operation, const void* address, PreparedBuffer* buffer);
  bool IsThere(const Operation& operation, const void* address, uint64_t bytes);

  BufferProbe probe_;
};

}  // namespace harmonaize
