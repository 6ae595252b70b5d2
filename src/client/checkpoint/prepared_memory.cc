#include "src/client/checkpoint/prepared_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/base/signals_blocked.h"

namespace harmonaize {
namespace {

/// Bytes of pages that are made at a time: some milliseconds, after which the thread may end.
constexpr uint64_t kPieceBytes = 4 << 20;
/// The lowest priority.
constexpr int kNice = 19;
// Of Linux 5.14; older ones refuse it, and the save makes the pages then.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

}  // namespace

Result<SharedMemory> MakeSaveMemory(uint64_t bytes) {
  // Huge pages of the host's pool are few, and no operation works on this memory.
  HZ_ASSIGN_OR_RETURN(SharedMemory memory, CreateSharedMemory("harmonaize-checkpoint", bytes));
  madvise(memory.mapping.data(), memory.mapping.size(), MADV_HUGEPAGE);
  madvise(memory.mapping.data(), memory.mapping.size(), MADV_DONTDUMP);
  madvise(memory.mapping.data(), memory.mapping.size(), MADV_DONTFORK);
  return memory;
}

PreparedMemory::PreparedMemory(uint64_t bytes) : bytes_(bytes) {
  Result<SharedMemory> memory = MakeSaveMemory(bytes);
  if (!memory.ok()) return;
  memory_ = std::move(*memory);
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { MakePages(); });
  } catch (const std::system_error&) {
    memory_.reset();
  }
}

PreparedMemory::~PreparedMemory() {
  Take();
}

std::optional<SharedMemory> PreparedMemory::Take() {
  // Relaxed: it only ends the work, and the join orders what was done.
  is_stopping_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
  return std::exchange(memory_, std::nullopt);
}

void PreparedMemory::MakePages() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  std::byte* const data = memory_->mapping.data();
  const uint64_t bytes = memory_->mapping.size();
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    if (is_stopping_.load(std::memory_order_relaxed)) return;
    if (madvise(data + at, std::min(kPieceBytes, bytes - at), MADV_POPULATE_WRITE) != 0) return;
  }
}

}  // namespace harmonaize
