#include "src/client/checkpoint/memory_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/base/read_whole.h"

namespace harmonaize {
namespace {

/// The name of a part in errors.
constexpr std::string_view kName = "a checkpoint in memory";
/// Most bytes that are brought here at a time: the process's other requests to the daemon wait
/// meanwhile.
constexpr uint64_t kMostFetchBytes = 32 << 20;
/// Bytes that are brought here with the first ones of a part: most tables are shorter.
constexpr uint64_t kFirstFetchBytes = 1 << 20;
/// Times that a range is brought here. The daemon gives back what nobody has asked for in a minute,
/// or what another rank could not read to its end, so more than one is rare.
constexpr int kMostTries = 5;

/// Returns whether two descriptors stand for one file. Its number is no other's while one is open.
bool AreOneFile(const FileDescriptor& one, const FileDescriptor& other) {
  struct stat first {};
  struct stat second {};
  return fstat(one.get(), &first) == 0 && fstat(other.get(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/// Brings a range of a part here and reads it. What was read is good if the daemon still had the
/// memory afterwards: it clears what it gives back.
Status FetchAndRead(OpenPart* part, uint64_t at, std::span<std::byte> into) {
  for (int i = 0; i < kMostTries; ++i) {
    HZ_RETURN_IF_ERROR(part->fetch(at, into.size()));
    const bool is_open = part->memory.valid();
    if (is_open) HZ_RETURN_IF_ERROR(ReadWholeAt(part->memory.get(), at, into, kName));
    HZ_ASSIGN_OR_RETURN(FileDescriptor now, part->reopen());
    if (is_open && AreOneFile(part->memory, now)) return Status::Ok();
    part->memory = std::move(now);
  }
  return Status(Code::kUnavailable,
                "the daemon gives a part of a checkpoint back while it is read");
}

/// Reads a range of a part, and brings it here before, where that is to be done.
Status ReadPart(OpenPart* part, uint64_t at, std::span<std::byte> into) {
  if (!part->fetch) {
    part->is_unconfirmed = true;
    return ReadWholeAt(part->memory.get(), at, into, kName);
  }
  while (!into.empty()) {
    const uint64_t bytes = std::min<uint64_t>(into.size(), kMostFetchBytes);
    HZ_RETURN_IF_ERROR(FetchAndRead(part, at, into.first(bytes)));
    at += bytes;
    into = into.subspan(bytes);
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<MemorySource>> MemorySource::Of(std::vector<OpenPart> parts, uint64_t save) {
  std::unique_ptr<MemorySource> source(new MemorySource());
  for (size_t i = 0; i < parts.size(); ++i) {
    OpenPart& part = parts[i];
    if (part.fetch) {
      HZ_RETURN_IF_ERROR(part.fetch(0, std::min(part.bytes, kFirstFetchBytes)));
    }
    HZ_ASSIGN_OR_RETURN(
        checkpoint::PartTable table,
        checkpoint::ReadPartTable(part.bytes, [&](uint64_t at, std::span<std::byte> into) {
          return ReadPart(&part, at, into);
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
  return ReadPart(&parts_[place.part], place.at + at, into);
}

Status MemorySource::Confirm() {
  for (OpenPart& part : parts_) {
    if (!std::exchange(part.is_unconfirmed, false)) continue;
    HZ_ASSIGN_OR_RETURN(const FileDescriptor now, part.reopen());
    if (now.valid() && AreOneFile(part.memory, now)) continue;
    return Status(
        Code::kUnavailable,
        "a part of the checkpoint was given back or overwritten while it was read: open the "
        "checkpoint again");
  }
  return Status::Ok();
}

}  // namespace harmonaize
