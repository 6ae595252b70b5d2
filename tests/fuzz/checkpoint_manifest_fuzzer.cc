// What a store of checkpoints says of itself: the manifests of parts, the record of a commit, and
// names in its folders. Any process of the tenant's may have written them, or a broken disk.

#include <string>
#include <string_view>

#include "src/checkpoint/manifest.h"
#include "src/checkpoint/store_names.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

void RequireSound(const checkpoint::PartManifest& manifest) {
  Require(manifest.identity.rank < manifest.identity.ranks, "the rank is one of the ranks");
  RequireClean(manifest.job, "a job's name");
  RequireClean(manifest.time, "a time");
  for (const checkpoint::StoredObject& object : manifest.objects) {
    Require(checkpoint::IsObjectName(object.name), "an object's name");
    for (const checkpoint::StoredShard& stored : object.shards) {
      RequireOk(checkpoint::CheckShard(stored.shard), "a shard is sound");
      Require(stored.at <= object.bytes && BytesOf(stored.shard) <= object.bytes - stored.at &&
                  stored.blob_at <= object.bytes &&
                  stored.blob_bytes <= object.bytes - stored.blob_at,
              "a shard lies in its object");
    }
  }
}

void Run(std::string_view text) {
  if (const auto manifest = checkpoint::ParseManifest(text); manifest.ok()) {
    RequireSound(*manifest);
    const auto again = checkpoint::ParseManifest(checkpoint::ManifestText(*manifest));
    Require(again.ok() && *again == *manifest, "a manifest is read as it is written");
    Require(checkpoint::ParseManifestHead(text).ok(), "a manifest has a head");
  }
  if (const auto record = checkpoint::ParseCommit(text); record.ok()) {
    Require(!record->parts.empty(), "a checkpoint has parts");
    RequireClean(record->job, "a job's name");
    const auto again = checkpoint::ParseCommit(checkpoint::CommitText(*record));
    Require(again.ok() && *again == *record, "a record is read as it is written");
  }
  if (const auto id = checkpoint::CheckpointIdOf(text)) {
    Require(checkpoint::CheckpointFolderName(*id) == text,
            "a folder's name is read as it is written");
  }
  if (checkpoint::IsObjectName(text)) {
    Require(text.find('/') == std::string_view::npos, "an object's name is no path");
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
