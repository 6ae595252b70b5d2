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

/// Most bytes that are brought here at a time: the process's other requests to the daemon wait
/// meanwhile.
constexpr uint64_t kMostFetchBytes = 32 << 20;
/// Bytes that are brought here with the first ones of a part: most tables are shorter.
constexpr uint64_t kFirstFetchBytes = 1 << 20;

/// Reads a range of a part, and brings it here before, where that is to be done.
Status ReadPart(const OpenPart& part, uint64_t at, std::span<std::byte> into) {
  if (!part.fetch) return ReadAt(part.memory.get(), at, into);
  while (!into.empty()) {
    const uint64_t bytes = std::min<uint64_t>(into.size(), kMostFetchBytes);
    HZ_RETURN_IF_ERROR(part.fetch(at, bytes));
    HZ_RETURN_IF_ERROR(ReadAt(part.memory.get(), at, into.first(bytes)));
    at += bytes;
    into = into.subspan(bytes);
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<MemorySource>> MemorySource::Of(std::vector<OpenPart> parts, uint64_t save) {
  std::unique_ptr<MemorySource> source(new MemorySource());
  for (size_t i = 0; i < parts.size(); ++i) {
    const OpenPart& part = parts[i];
    if (part.fetch) {
      HZ_RETURN_IF_ERROR(part.fetch(0, std::min(part.bytes, kFirstFetchBytes)));
    }
    HZ_ASSIGN_OR_RETURN(
        checkpoint::PartTable table,
        checkpoint::ReadPartTable(part.bytes, [&](uint64_t at, std::span<std::byte> into) {
          return ReadPart(part, at, into);
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
  return ReadPart(parts_[place.part], place.at + at, into);
}

}  // namespace harmonaize
