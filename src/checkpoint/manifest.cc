#include "src/checkpoint/manifest.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/checkpoint/json_fields.h"
#include "src/checkpoint/writer_messages.h"

namespace harmonaize::checkpoint {
namespace {

using nlohmann::json;

constexpr uint64_t kManifestVersion = 1;
/// Most bytes of a line: a name of which JSON escapes every byte, and the numbers of a shard.
constexpr size_t kMostLineBytes = 16 << 10;
/// Bytes of a time as TimeText has it, and some more.
constexpr size_t kMostTimeBytes = 40;

// ---------------------------------------------------------------------------------------------
// Texts

json HeadOf(const PartManifest& manifest) {
  uint64_t shards = 0;
  for (const StoredObject& object : manifest.objects) shards += object.shards.size();
  return {{"harmonaize_part", kManifestVersion},
          {"step", manifest.identity.step},
          {"save", DigitsOf(manifest.identity.save)},
          {"rank", manifest.identity.rank},
          {"ranks", manifest.identity.ranks},
          {"kept", manifest.identity.is_kept},
          {"job", manifest.job},
          {"format", NameOf(manifest.format)},
          {"time", manifest.time},
          {"bytes", manifest.bytes},
          {"new_bytes", manifest.new_bytes},
          {"objects", manifest.objects.size()},
          {"shards", shards}};
}

json LineOf(const StoredShard& stored) {
  json line = {{"shard", stored.shard.name},         {"type", NameOf(stored.shard.type)},
               {"whole", stored.shard.global_shape}, {"offset", stored.shard.box.offset},
               {"shape", stored.shard.box.shape},    {"at", stored.at},
               {"xxh3", DigitsOf(stored.checksum)}};
  if (stored.shard.is_object) line["is_object"] = true;
  if (stored.blob_bytes > 0) line["blob"] = {stored.blob_at, stored.blob_bytes};
  return line;
}

// ---------------------------------------------------------------------------------------------
// Values

std::string TimeIn(JsonFields* fields) {
  return CleanText(fields->Text("time", kMostTimeBytes), kMostTimeBytes);
}

StoreFormat FormatIn(JsonFields* fields, Status* status) {
  const std::optional<StoreFormat> format = StoreFormatOf(fields->Text("format", 32));
  if (!format.has_value() && status->ok()) {
    *status = InvalidArgument("a checkpoint has a format that this release does not know");
  }
  return format.value_or(StoreFormat::kSafetensors);
}

/// Reads an array of numbers that are not negative, each below 2^63.
std::vector<int64_t> NumbersIn(JsonFields* fields, const char* key, Status* status) {
  std::vector<int64_t> numbers;
  for (const json& value : fields->Array(key, kMostDimensions)) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) {
      *status = InvalidArgument("'{}' of a shard has something else than lengths", key);
      break;
    }
    numbers.push_back(static_cast<int64_t>(value.get<uint64_t>()));
  }
  return numbers;
}

/// Checks that bytes from `at` on lie in an object.
bool LiesIn(uint64_t at, uint64_t bytes, uint64_t object_bytes) {
  return at <= object_bytes && bytes <= object_bytes - at;
}

Result<StoredShard> ShardIn(const json& line, const StoredObject& object) {
  StoredShard stored;
  JsonFields fields(line, "a shard's line");
  Status status;
  stored.shard.name = fields.Text("shard", kMostNameBytes);
  const std::optional<ElementType> type = ElementTypeOf(fields.Text("type", 16));
  stored.shard.is_object = fields.Has("is_object") && fields.Flag("is_object");
  stored.shard.global_shape = NumbersIn(&fields, "whole", &status);
  stored.shard.box.offset = NumbersIn(&fields, "offset", &status);
  stored.shard.box.shape = NumbersIn(&fields, "shape", &status);
  stored.at = fields.Count("at", 0, kMostObjectBytes);
  stored.checksum = fields.Digits("xxh3");
  if (fields.Has("blob")) {
    const std::vector<int64_t> blob = NumbersIn(&fields, "blob", &status);
    if (blob.size() == 2) {
      stored.blob_at = static_cast<uint64_t>(blob[0]);
      stored.blob_bytes = static_cast<uint64_t>(blob[1]);
    }
  }
  HZ_RETURN_IF_ERROR(fields.status());
  HZ_RETURN_IF_ERROR(status);
  if (!type.has_value()) return InvalidArgument("a shard has a type that does not exist");
  stored.shard.type = *type;
  HZ_RETURN_IF_ERROR(CheckShard(stored.shard));
  if (!LiesIn(stored.at, BytesOf(stored.shard), object.bytes) ||
      !LiesIn(stored.blob_at, stored.blob_bytes, object.bytes)) {
    return InvalidArgument("the data of '{}' does not lie in its object", stored.shard.name);
  }
  return stored;
}

Result<StoredObject> ObjectIn(const json& line) {
  StoredObject object;
  JsonFields fields(line, "an object's line");
  object.name = fields.Text("object", 2 * kDigestDigits);
  object.bytes = fields.Count("bytes", 0, kMostObjectBytes);
  HZ_RETURN_IF_ERROR(fields.status());
  if (!IsObjectName(object.name)) return InvalidArgument("an object's name is none");
  return object;
}

struct PartHead {
  PartManifest manifest;
  uint64_t objects = 0;
  uint64_t shards = 0;
};

Result<PartHead> HeadIn(const json& line) {
  PartHead head;
  PartManifest& manifest = head.manifest;
  JsonFields fields(line, "the head of a part's manifest");
  Status status;
  fields.Count("harmonaize_part", kManifestVersion, kManifestVersion);
  manifest.identity.step = fields.Count("step", 0, INT64_MAX);
  manifest.identity.save = fields.Digits("save");
  manifest.identity.ranks = static_cast<int32_t>(fields.Count("ranks", 1, kMostStoredRanks));
  manifest.identity.rank = static_cast<int32_t>(
      fields.Count("rank", 0, static_cast<uint64_t>(manifest.identity.ranks) - 1));
  manifest.identity.is_kept = fields.Flag("kept");
  manifest.job = CleanText(fields.Text("job", kMostNameBytes), kMostNameBytes);
  manifest.format = FormatIn(&fields, &status);
  manifest.time = TimeIn(&fields);
  manifest.bytes = fields.Count("bytes", 0, kMostObjectBytes);
  manifest.new_bytes = fields.Count("new_bytes", 0, kMostObjectBytes);
  head.objects = fields.Count("objects", 0, kMostShards);
  head.shards = fields.Count("shards", 0, kMostShards);
  HZ_RETURN_IF_ERROR(fields.status());
  HZ_RETURN_IF_ERROR(status);
  return head;
}

/// Removes and returns the first line of a text; Requires: there is one.
std::string_view TakeLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

Result<json> LineIn(std::string_view* text) {
  const std::string_view line = TakeLine(text);
  if (line.size() > kMostLineBytes) return InvalidArgument("a line of a manifest is too long");
  return ParseObject(line, "a line of a manifest");
}

Result<PartManifest> ParseLines(std::string_view text) {
  HZ_ASSIGN_OR_RETURN(const json first, LineIn(&text));
  HZ_ASSIGN_OR_RETURN(PartHead head, HeadIn(first));
  std::vector<StoredObject>& objects = head.manifest.objects;
  uint64_t shards = 0;
  while (!text.empty()) {
    HZ_ASSIGN_OR_RETURN(const json line, LineIn(&text));
    if (line.contains("object")) {
      if (objects.size() == head.objects) return InvalidArgument("a manifest has too many objects");
      HZ_ASSIGN_OR_RETURN(StoredObject object, ObjectIn(line));
      objects.push_back(std::move(object));
      continue;
    }
    if (objects.empty()) return InvalidArgument("a shard of a manifest has no object");
    if (shards++ == head.shards) return InvalidArgument("a manifest has too many shards");
    HZ_ASSIGN_OR_RETURN(StoredShard shard, ShardIn(line, objects.back()));
    objects.back().shards.push_back(std::move(shard));
  }
  if (objects.size() != head.objects || shards != head.shards) {
    return InvalidArgument("a manifest ends too early");
  }
  return std::move(head.manifest);
}

Result<ManifestDigest> DigestIn(const json& pair) {
  const auto is_text = [](const json& value) { return value.is_string(); };
  if (!pair.is_array() || pair.size() != 2 || !is_text(pair[0]) || !is_text(pair[1])) {
    return InvalidArgument("a part's digests are no two texts");
  }
  ManifestDigest digest = {.sha256 = pair[0].get<std::string>()};
  if (!IsObjectName(digest.sha256 + ".bin") ||
      !ParseDigits(pair[1].get_ref<const std::string&>(), &digest.checksum)) {
    return InvalidArgument("a part's digest is none");
  }
  return digest;
}

Result<CommitRecord> RecordIn(std::string_view text) {
  HZ_ASSIGN_OR_RETURN(const json document, ParseObject(text, "the record of a checkpoint"));
  CommitRecord record;
  JsonFields fields(document, "the record of a checkpoint");
  Status status;
  fields.Count("harmonaize_checkpoint", kManifestVersion, kManifestVersion);
  record.number = fields.Count("number", 1, kMostCommitNumber);
  record.id.step = fields.Count("step", 0, INT64_MAX);
  record.id.save = fields.Digits("save");
  const uint64_t ranks = fields.Count("ranks", 1, kMostStoredRanks);
  record.job = CleanText(fields.Text("job", kMostNameBytes), kMostNameBytes);
  record.format = FormatIn(&fields, &status);
  record.is_kept = fields.Flag("kept");
  record.bytes = fields.Count("bytes", 0, UINT64_MAX);
  record.new_bytes = fields.Count("new_bytes", 0, UINT64_MAX);
  record.time = TimeIn(&fields);
  for (const json& pair : fields.Array("parts", ranks)) {
    HZ_ASSIGN_OR_RETURN(ManifestDigest digest, DigestIn(pair));
    record.parts.push_back(std::move(digest));
  }
  HZ_RETURN_IF_ERROR(fields.status());
  HZ_RETURN_IF_ERROR(status);
  if (record.parts.size() != ranks) {
    return InvalidArgument("the record of a checkpoint has {} parts of {}", record.parts.size(),
                           ranks);
  }
  return record;
}

}  // namespace

std::string ManifestText(const PartManifest& manifest) {
  std::string text = JsonText(HeadOf(manifest)) + "\n";
  for (const StoredObject& object : manifest.objects) {
    text += JsonText(json{{"object", object.name}, {"bytes", object.bytes}}) + "\n";
    for (const StoredShard& shard : object.shards) text += JsonText(LineOf(shard)) + "\n";
  }
  return text;
}

Result<PartManifest> ParseManifest(std::string_view text) {
  try {
    return ParseLines(text);
  } catch (const std::exception& error) {
    return InternalError("cannot read a manifest: {}", error.what());
  }
}

Result<PartManifest> ParseManifestHead(std::string_view text) {
  try {
    HZ_ASSIGN_OR_RETURN(const json first, LineIn(&text));
    HZ_ASSIGN_OR_RETURN(PartHead head, HeadIn(first));
    return std::move(head.manifest);
  } catch (const std::exception& error) {
    return InternalError("cannot read a manifest: {}", error.what());
  }
}

std::string CommitText(const CommitRecord& record) {
  json parts = json::array();
  for (const ManifestDigest& digest : record.parts) {
    parts.push_back({digest.sha256, DigitsOf(digest.checksum)});
  }
  return JsonText(json{{"harmonaize_checkpoint", kManifestVersion},
                       {"number", record.number},
                       {"step", record.id.step},
                       {"save", DigitsOf(record.id.save)},
                       {"ranks", record.parts.size()},
                       {"job", record.job},
                       {"format", NameOf(record.format)},
                       {"kept", record.is_kept},
                       {"bytes", record.bytes},
                       {"new_bytes", record.new_bytes},
                       {"time", record.time},
                       {"parts", std::move(parts)}}) +
         "\n";
}

Result<CommitRecord> ParseCommit(std::string_view text) {
  try {
    return RecordIn(text);
  } catch (const std::exception& error) {
    return InternalError("cannot read the record of a checkpoint: {}", error.what());
  }
}

}  // namespace harmonaize::checkpoint
