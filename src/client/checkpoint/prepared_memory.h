#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "src/base/status.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// Returns shared memory for parts of checkpoints, none of whose pages is there yet. Core dumps
/// leave it out, and forked children do not have it. Errors: kSystemError.
Result<SharedMemory> MakeSaveMemory(uint64_t bytes);

/// Such memory whose pages a thread makes beside the rank's work, so that the save that is to use
/// it need not: new pages take ten times as long as the copy. The thread has the lowest priority.
/// Thread: one.
class PreparedMemory {
 public:
  /// Without a thread for it, there is no memory, and Take says so.
  explicit PreparedMemory(uint64_t bytes);
  /// Ends the thread.
  ~PreparedMemory();
  PreparedMemory(const PreparedMemory&) = delete;
  PreparedMemory& operator=(const PreparedMemory&) = delete;

  uint64_t bytes() const { return bytes_; }
  /// Ends the thread, and returns the memory with the pages that are there; nullopt: there is none.
  std::optional<SharedMemory> Take();

 private:
  void MakePages();

  const uint64_t bytes_;
  std::optional<SharedMemory> memory_;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace harmonaize
