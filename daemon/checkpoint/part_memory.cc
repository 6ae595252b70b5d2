#include "daemon/checkpoint/part_memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "daemon/checkpoint/part_eraser.h"

namespace harmonaize::daemon {

Result<std::shared_ptr<CopiedMemory>> CopiedMemory::Make(Account& account, uint64_t bytes,
                                                         std::shared_ptr<PartEraser> eraser) {
  if (bytes > INT64_MAX) return InvalidArgument("a part of {} bytes", bytes);
  std::unique_ptr<CopiedMemory> copy(new CopiedMemory());
  HZ_ASSIGN_OR_RETURN(copy->place_, account.Take(Resource::kRegionDescriptors, 1));
  HZ_ASSIGN_OR_RETURN(copy->bytes_,
                      account.Take(Resource::kCheckpointBytes, static_cast<int64_t>(bytes)));
  HZ_ASSIGN_OR_RETURN(copy->memory_, CreateSharedMemory("harmonaize-part", bytes));
  madvise(copy->memory_.mapping.data(), copy->memory_.mapping.size(), MADV_DONTDUMP);
  // This mapping is the last one that can be written to.
  if (fcntl(copy->memory_.descriptor.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
    return ErrnoError(errno, "cannot seal memory for a part of a checkpoint");
  }
  return std::shared_ptr<CopiedMemory>(
      copy.release(), [eraser = std::move(eraser)](CopiedMemory* unused) {
        eraser->Run([owned = std::shared_ptr<CopiedMemory>(unused)] {});
      });
}

// Only what was written is overwritten: the kernel would make pages for the rest.
CopiedMemory::~CopiedMemory() {
  for (const auto& [begin, end] : written_) {
    explicit_bzero(memory_.mapping.data() + begin, end - begin);
  }
}

void CopiedMemory::NoteWritten(uint64_t at, uint64_t bytes) {
  if (bytes == 0) return;
  uint64_t begin = at;
  uint64_t end = at + bytes;
  auto next = written_.upper_bound(begin);
  if (next != written_.begin() && std::prev(next)->second >= begin) --next;
  while (next != written_.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = written_.erase(next);
  }
  written_[begin] = end;
}

bool CopiedMemory::Has(uint64_t at, uint64_t bytes) const {
  if (bytes == 0) return true;
  const auto behind = written_.upper_bound(at);
  return behind != written_.begin() && std::prev(behind)->second >= at + bytes;
}

CopiedMemory::Range CopiedMemory::MissingIn(uint64_t begin, uint64_t end) const {
  auto next = written_.upper_bound(begin);
  if (next != written_.begin()) begin = std::max(begin, std::prev(next)->second);
  const uint64_t until = next == written_.end() ? end : std::min(end, next->first);
  return {.begin = std::min(begin, end), .end = std::max(std::min(begin, end), until)};
}

}  // namespace harmonaize::daemon
