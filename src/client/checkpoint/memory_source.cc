#include "src/client/checkpoint/memory_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace harmonaize {
namespace {

/// Most bytes of one system call: the kernel takes no more than this at once.
constexpr size_t kMostReadBytes = size_t{1} << 30;

Status ReadAt(int memory, uint64_t at, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t bytes =
        pread(memory, into.data(), std::min(into.size(), kMostReadBytes), static_cast<off_t>(at));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return ErrnoError(errno, "cannot read a checkpoint in memory");
    if (bytes == 0) return InvalidArgument("a checkpoint in memory is shorter than it says");
    at += static_cast<uint64_t>(bytes);
    into = into.subspan(static_cast<size_t>(bytes));
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<MemorySource>> MemorySource::Of(std::vector<OpenPart> parts, uint64_t save) {
  std::unique_ptr<MemorySource> source(new MemorySource());
  for (size_t i = 0; i < parts.size(); ++i) {
    const int memory = parts[i].memory.get();
    HZ_ASSIGN_OR_RETURN(
        checkpoint::PartTable table,
        checkpoint::ReadPartTable(parts[i].bytes, [&](uint64_t at, std::span<std::byte> into) {
          return ReadAt(memory, at, into);
        }));
    if (table.identity.save != save) {
      return InvalidArgument("a part in memory is of another checkpoint: it was overwritten");
    }
    for (checkpoint::PlacedShard& placed : table.shards) {
      source->shards_.push_back(std::move(placed.shard));
      source->places_.push_back({.part = i, .at = placed.at});
    }
  }
  source->parts_ = std::move(parts);
  return source;
}

Status MemorySource::Read(size_t shard, uint64_t at, std::span<std::byte> into) {
  const Place& place = places_[shard];
  return ReadAt(parts_[place.part].memory.get(), place.at + at, into);
}

}  // namespace harmonaize
