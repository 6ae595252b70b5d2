#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/part_image.h"
#include "src/checkpoint/shard.h"
#include "src/checkpoint/store_format.h"
#include "src/checkpoint/store_names.h"

namespace harmonaize::checkpoint {

// What a store says of a checkpoint. The manifest of a part is a line of JSON about the part, then
// a line for each object, which is followed by a line for each shard in it: a reader needs no more
// than a line in memory. The record of a commit is one JSON object. Both come from disk, so nothing
// in them is believed.

/// Most bytes of a manifest: three times a table of shards, since JSON spells its numbers out.
inline constexpr uint64_t kMostManifestBytes = 3 * kMostTableBytes;
/// Most bytes of the record of a commit: a hundred for each of a million ranks, and its head.
inline constexpr uint64_t kMostCommitBytes = uint64_t{128} << 20;
/// Most bytes of an object.
inline constexpr uint64_t kMostObjectBytes = uint64_t{1} << 61;
/// Largest number of a commit.
inline constexpr uint64_t kMostCommitNumber = uint64_t{1} << 62;

/// A shard, and where it lies in its object.
struct StoredShard {
  Shard shard = {};
  uint64_t at = 0;        ///< Of its bytes.
  uint64_t checksum = 0;  ///< XXH3 of its bytes.
  /// The file of torch.save in the object that holds it, if DCP is to read it; else of 0 bytes.
  uint64_t blob_at = 0;
  uint64_t blob_bytes = 0;

  bool operator==(const StoredShard&) const = default;
};

/// A file of a checkpoint, by its digest.
struct StoredObject {
  std::string name = {};
  uint64_t bytes = 0;
  std::vector<StoredShard> shards = {};

  bool operator==(const StoredObject&) const = default;
};

/// What a rank has saved.
struct PartManifest {
  PartIdentity identity = {};
  std::string job = {};
  StoreFormat format = StoreFormat::kSafetensors;
  std::string time = {};   ///< When it was saved, as TimeText has it.
  uint64_t bytes = 0;      ///< Of all its shards.
  uint64_t new_bytes = 0;  ///< Of objects that were written for it.
  std::vector<StoredObject> objects = {};

  bool operator==(const PartManifest&) const = default;
};

/// Identifies the text of a part's manifest.
struct ManifestDigest {
  std::string sha256 = {};  ///< 64 hexadecimal digits, for those that have libcrypto.
  uint64_t checksum = 0;    ///< XXH3, for all.

  bool operator==(const ManifestDigest&) const = default;
};

/// The file that makes parts a checkpoint.
struct CommitRecord {
  /// One more than that of any checkpoint that the store had: the largest number is the newest
  /// checkpoint, also where a job went back to an earlier step, or clocks did.
  uint64_t number = 0;
  CheckpointId id = {};
  std::string job = {};
  StoreFormat format = StoreFormat::kSafetensors;
  bool is_kept = false;
  uint64_t bytes = 0;
  uint64_t new_bytes = 0;
  std::string time = {};                   ///< When the last part was saved.
  std::vector<ManifestDigest> parts = {};  ///< By rank.

  bool operator==(const CommitRecord&) const = default;
};

/// Returns a manifest's text.
std::string ManifestText(const PartManifest& manifest);
/// Reads it. Errors: kInvalidArgument, with what is wrong with it. Every shard of the result has
/// passed CheckShard and lies in its object, and every object's name is IsObjectName.
Result<PartManifest> ParseManifest(std::string_view text);

/// Reads what the first line says. Errors: kInvalidArgument.
Result<PartManifest> ParseManifestHead(std::string_view text);

/// Returns a record's text, the same whoever makes it.
std::string CommitText(const CommitRecord& record);
/// Reads it. Errors: kInvalidArgument, with what is wrong with it.
Result<CommitRecord> ParseCommit(std::string_view text);

}  // namespace harmonaize::checkpoint
