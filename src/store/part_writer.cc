#include "src/store/part_writer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/base/time_text.h"
#include "src/store/object_groups.h"
#include "src/store/object_layout.h"
#include "src/store/sha256.h"

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::PartManifest;
using checkpoint::PlacedShard;
using checkpoint::ReadImage;
using checkpoint::StoredObject;

/// Files that are made durable together: the disk orders what many of them need.
constexpr size_t kMostUnsynced = 32;

std::vector<ShardToLay> ShardsToLay(const std::vector<PlacedShard>& shards,
                                    const std::vector<ShardSums>& sums) {
  std::vector<ShardToLay> to_lay;
  for (size_t i = 0; i < shards.size(); ++i) to_lay.push_back({&shards[i].shard, sums[i].crc32});
  return to_lay;
}

StoredObject ObjectOf(const std::vector<PlacedShard>& shards, const std::vector<ShardSums>& sums,
                      const ObjectLayout& layout) {
  StoredObject object = {.bytes = layout.bytes};
  for (size_t i = 0; i < shards.size(); ++i) {
    const LaidShard& laid = layout.shards[i];
    object.shards.push_back({.shard = shards[i].shard,
                             .at = laid.at,
                             .checksum = sums[i].checksum,
                             .blob_at = laid.blob_at,
                             .blob_bytes = laid.blob_bytes});
  }
  return object;
}

}  // namespace

PartWriter::PartWriter(const Store* store, checkpoint::OpenStore options,
                       std::function<Status()> go_on)
    : store_(store),
      options_(std::move(options)),
      stream_(go_on),
      pace_(options_.most_bytes_per_second, std::move(go_on)) {}

Status PartWriter::CheckIdentity(const checkpoint::PartIdentity& identity,
                                 const checkpoint::SaveImage& save) const {
  const bool is_it = identity.rank == options_.rank && identity.ranks == options_.ranks &&
                     identity.step == save.step && identity.save == save.save &&
                     identity.is_kept == save.is_kept;
  if (is_it) return Status::Ok();
  return InvalidArgument(
      "the buffer has the part of rank {} of {} of step {}, and that of rank {} "
      "of {} of step {} was to be written",
      identity.rank, identity.ranks, identity.step, options_.rank, options_.ranks, save.step);
}

Result<PartManifest> PartWriter::Write(const checkpoint::SaveImage& save, const ReadImage& read,
                                       const OpenCheckpoint& into) {
  HZ_ASSIGN_OR_RETURN(const checkpoint::PartTable table,
                      checkpoint::ReadPartTable(save.bytes, read));
  HZ_RETURN_IF_ERROR(CheckIdentity(table.identity, save));
  return WriteShards(table, read, into);
}

Result<PartManifest> PartWriter::WriteShards(const checkpoint::PartTable& table,
                                             const ReadImage& read, const OpenCheckpoint& into) {
  unsynced_.clear();
  // Of a writer of this rank that died in the middle of this save.
  RemoveFiles(into.objects, TemporaryPrefix(std::to_string(options_.rank)));
  PartManifest manifest = {
      .identity = table.identity, .job = options_.job, .format = options_.format};
  for (const std::vector<size_t>& group : GroupShards(table.shards, options_.format)) {
    std::vector<PlacedShard> shards;
    for (const size_t number : group) {
      shards.push_back(table.shards[number]);
      manifest.bytes += BytesOf(shards.back().shard);
    }
    HZ_ASSIGN_OR_RETURN(StoredObject object, WriteObject(shards, read, into, &manifest.new_bytes));
    manifest.objects.push_back(std::move(object));
  }
  HZ_RETURN_IF_ERROR(SyncAll(into));
  HZ_RETURN_IF_ERROR(SyncFolder(into.objects));
  manifest.time = TimeText(manifest.identity.saved_ns);
  HZ_RETURN_IF_ERROR(WriteDurably(into.folder, checkpoint::PartFileName(options_.rank),
                                  checkpoint::ManifestText(manifest))
                         .status());
  return manifest;
}

Result<StoredObject> PartWriter::WriteObject(const std::vector<PlacedShard>& shards,
                                             const ReadImage& read, const OpenCheckpoint& into,
                                             uint64_t* new_bytes) {
  const ReadShard read_shard = [&](size_t shard, uint64_t at, std::span<std::byte> bytes) {
    return read(shards[shard].at + at, bytes);
  };
  const bool with_crc32 = options_.format != checkpoint::StoreFormat::kSafetensors;
  std::vector<ShardSums> sums;
  for (size_t i = 0; i < shards.size(); ++i) {
    HZ_ASSIGN_OR_RETURN(const ShardSums one,
                        stream_.Sum(read_shard, i, BytesOf(shards[i].shard), with_crc32));
    sums.push_back(one);
  }
  const ObjectLayout layout = LayoutOf(options_.format, ShardsToLay(shards, sums));
  Sha256 digest;
  HZ_RETURN_IF_ERROR(stream_.Run(layout, sums, read_shard, [&](std::span<const std::byte> bytes) {
    digest.Add(bytes);
    return Status::Ok();
  }));
  StoredObject object = ObjectOf(shards, sums, layout);
  object.name = digest.Finish() + std::string(layout.extension);
  // What has its name is durable already, whoever has written it.
  const Result<uint64_t> found = into.objects.BytesOfFile(object.name);
  const bool is_there = (found.ok() && *found == layout.bytes) ||
                        store_->LinkFromPool(object.name, layout.bytes, into.objects);
  if (!is_there) {
    HZ_RETURN_IF_ERROR(WriteFile(layout, sums, read_shard, object.name, into));
    *new_bytes += layout.bytes;
  }
  return object;
}

Status PartWriter::WriteFile(const ObjectLayout& layout, std::span<const ShardSums> sums,
                             const ReadShard& read, const std::string& name,
                             const OpenCheckpoint& into) {
  HZ_ASSIGN_OR_RETURN(ObjectFile file,
                      ObjectFile::Make(into.objects, std::to_string(options_.rank)));
  const Status written = stream_.Run(layout, sums, read, [&](std::span<const std::byte> bytes) {
    HZ_RETURN_IF_ERROR(pace_.Before(bytes.size()));
    return file.Write(bytes);
  });
  HZ_RETURN_IF_ERROR(written);
  unsynced_.push_back({std::move(file), name});
  return unsynced_.size() < kMostUnsynced ? Status::Ok() : SyncAll(into);
}

Status PartWriter::SyncAll(const OpenCheckpoint& into) {
  for (Unsynced& one : unsynced_) {
    HZ_RETURN_IF_ERROR(one.file.Sync());
    HZ_RETURN_IF_ERROR(one.file.Name(one.name));
    store_->LinkIntoPool(one.name, into.objects);
  }
  unsynced_.clear();
  return Status::Ok();
}

}  // namespace harmonaize::store
