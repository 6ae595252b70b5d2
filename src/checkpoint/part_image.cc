#include "src/checkpoint/part_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/checkpoint/checksum.h"

namespace harmonaize::checkpoint {
namespace {

constexpr uint64_t kMagic = 0x0031'5452'4150'5a48;  // "HZPART1" and a zero
constexpr uint32_t kVersion = 1;
constexpr uint32_t kKeptFlag = 1;
/// Largest size of an image: sums of several do not overflow 64 bits.
constexpr uint64_t kMostImageBytes = uint64_t{1} << 61;

struct PartHeader {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t flags = 0;
  uint64_t step = 0;
  uint64_t save = 0;
  int32_t rank = 0;
  int32_t ranks = 0;
  uint64_t shards = 0;
  uint64_t table_bytes = 0;
  uint64_t data_at = 0;
  uint64_t bytes = 0;
  uint64_t table_checksum = 0;
  int64_t saved_ns = 0;
  uint8_t reserved[40] = {};
};
static_assert(sizeof(PartHeader) == kPartHeaderBytes);

// An entry of the table: EntryHead, the name, and three numbers for each dimension (global length,
// offset, length).
struct EntryHead {
  uint64_t at = 0;
  uint16_t name_bytes = 0;
  uint8_t type = 0;
  uint8_t is_object = 0;
  uint32_t dimensions = 0;
};
static_assert(sizeof(EntryHead) == 16);

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

template <typename Value>
void Append(std::vector<std::byte>* table, const Value& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  table->insert(table->end(), bytes, bytes + sizeof value);
}

void AppendEntry(std::vector<std::byte>* table, const PlacedShard& placed) {
  const Shard& shard = placed.shard;
  Append(table, EntryHead{.at = placed.at,
                          .name_bytes = static_cast<uint16_t>(shard.name.size()),
                          .type = static_cast<uint8_t>(shard.type),
                          .is_object = shard.is_object ? uint8_t{1} : uint8_t{0},
                          .dimensions = static_cast<uint32_t>(shard.global_shape.size())});
  const auto* name = reinterpret_cast<const std::byte*>(shard.name.data());
  table->insert(table->end(), name, name + shard.name.size());
  for (size_t i = 0; i < shard.global_shape.size(); ++i) {
    Append(table, shard.global_shape[i]);
    Append(table, shard.box.offset[i]);
    Append(table, shard.box.shape[i]);
  }
}

uint64_t EntryBytes(const Shard& shard) {
  return sizeof(EntryHead) + shard.name.size() + 3 * sizeof(int64_t) * shard.global_shape.size();
}

/// Takes values from the front of a table.
class TableReader {
 public:
  explicit TableReader(std::span<const std::byte> table) : left_(table) {}

  bool empty() const { return left_.empty(); }

  template <typename Value>
  bool Take(Value* value) {
    if (left_.size() < sizeof *value) return false;
    std::memcpy(value, left_.data(), sizeof *value);
    left_ = left_.subspan(sizeof *value);
    return true;
  }

  bool TakeText(size_t bytes, std::string* text) {
    if (left_.size() < bytes) return false;
    text->assign(reinterpret_cast<const char*>(left_.data()), bytes);
    left_ = left_.subspan(bytes);
    return true;
  }

  /// Returns whether the table ended before the entry did.
  bool TakeEntry(PlacedShard* placed) {
    EntryHead head;
    if (!Take(&head) || head.dimensions > kMostDimensions || head.is_object > 1) return false;
    Shard& shard = placed->shard;
    placed->at = head.at;
    shard.type = static_cast<ElementType>(head.type);
    shard.is_object = head.is_object != 0;
    if (!TakeText(head.name_bytes, &shard.name)) return false;
    for (uint32_t i = 0; i < head.dimensions; ++i) {
      int64_t numbers[3];
      if (!Take(&numbers)) return false;
      shard.global_shape.push_back(numbers[0]);
      shard.box.offset.push_back(numbers[1]);
      shard.box.shape.push_back(numbers[2]);
    }
    return true;
  }

 private:
  std::span<const std::byte> left_;
};

Status CheckHeader(const PartHeader& header, uint64_t most_bytes) {
  if (header.magic != kMagic) return InvalidArgument("these bytes are no part of a checkpoint");
  if (header.version != kVersion) {
    return InvalidArgument("the part of a checkpoint has version {}, and this release reads {}",
                           header.version, kVersion);
  }
  const bool is_sound = header.step <= INT64_MAX && header.saved_ns >= 0 && header.ranks >= 1 &&
                        header.rank >= 0 && header.rank < header.ranks &&
                        header.shards <= kMostShards && header.table_bytes <= kMostTableBytes &&
                        header.shards <= header.table_bytes / sizeof(EntryHead) &&
                        header.bytes <= std::min(most_bytes, kMostImageBytes) &&
                        header.data_at <= header.bytes &&
                        header.data_at >= kPartHeaderBytes + header.table_bytes;
  if (!is_sound) return InvalidArgument("the part's header is damaged");
  return Status::Ok();
}

Status CheckPlaced(const PlacedShard& placed, const PartHeader& header) {
  HZ_RETURN_IF_ERROR(CheckShard(placed.shard));
  const uint64_t bytes = BytesOf(placed.shard);
  if (placed.at < header.data_at || placed.at > header.bytes || bytes > header.bytes - placed.at) {
    return InvalidArgument("the data of '{}' does not lie in the part", placed.shard.name);
  }
  return Status::Ok();
}

}  // namespace

Result<PartLayout> PartLayout::Of(std::vector<Shard> shards) {
  if (shards.size() > kMostShards) {
    return InvalidArgument("{} shards are more than {}", shards.size(), kMostShards);
  }
  PartLayout layout;
  uint64_t table_bytes = 0;
  for (const Shard& shard : shards) {
    HZ_RETURN_IF_ERROR(CheckShard(shard));
    table_bytes += EntryBytes(shard);
  }
  if (table_bytes > kMostTableBytes) {
    return InvalidArgument("names and shapes of {} shards take {} bytes, more than {}",
                           shards.size(), table_bytes, kMostTableBytes);
  }
  layout.data_at = RoundUp(kPartHeaderBytes + table_bytes, kPageBytes);
  layout.bytes = layout.data_at;
  layout.table.reserve(table_bytes);
  layout.shards.reserve(shards.size());
  for (Shard& shard : shards) {
    const uint64_t bytes = BytesOf(shard);
    const uint64_t at = RoundUp(layout.bytes, bytes >= kPageBytes ? kPageBytes : kLineBytes);
    if (at > kMostImageBytes - bytes) return InvalidArgument("the shards have too many bytes");
    layout.shards.push_back({std::move(shard), at});
    layout.bytes = at + bytes;
    AppendEntry(&layout.table, layout.shards.back());
  }
  return layout;
}

void PartLayout::Write(const PartIdentity& identity, std::byte* image) const {
  const PartHeader header = {.flags = identity.is_kept ? kKeptFlag : 0,
                             .step = identity.step,
                             .save = identity.save,
                             .rank = identity.rank,
                             .ranks = identity.ranks,
                             .shards = shards.size(),
                             .table_bytes = table.size(),
                             .data_at = data_at,
                             .bytes = bytes,
                             .table_checksum = ChecksumOf(table),
                             .saved_ns = identity.saved_ns};
  std::memcpy(image, &header, sizeof header);
  if (!table.empty()) std::memcpy(image + sizeof header, table.data(), table.size());
}

Result<PartTable> ReadPartTable(uint64_t most_bytes, const ReadImage& read) {
  if (most_bytes < kPartHeaderBytes) {
    return InvalidArgument("{} bytes are no part of a checkpoint", most_bytes);
  }
  PartHeader header;
  HZ_RETURN_IF_ERROR(read(0, std::as_writable_bytes(std::span(&header, 1))));
  HZ_RETURN_IF_ERROR(CheckHeader(header, most_bytes));
  std::vector<std::byte> bytes(header.table_bytes);
  HZ_RETURN_IF_ERROR(read(sizeof header, bytes));
  if (ChecksumOf(bytes) != header.table_checksum) {
    return InvalidArgument("the part's table of shards is damaged");
  }
  PartTable table = {.identity = {.step = header.step,
                                  .save = header.save,
                                  .rank = header.rank,
                                  .ranks = header.ranks,
                                  .is_kept = (header.flags & kKeptFlag) != 0,
                                  .saved_ns = header.saved_ns},
                     .shards = {},
                     .bytes = header.bytes};
  TableReader reader(bytes);
  for (uint64_t i = 0; i < header.shards; ++i) {
    PlacedShard placed;
    if (!reader.TakeEntry(&placed)) {
      return InvalidArgument("the part's table of shards is damaged");
    }
    HZ_RETURN_IF_ERROR(CheckPlaced(placed, header));
    table.shards.push_back(std::move(placed));
  }
  if (!reader.empty()) return InvalidArgument("the part's table of shards is damaged");
  return table;
}

}  // namespace harmonaize::checkpoint
