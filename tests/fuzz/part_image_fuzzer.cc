// The image of a rank's part of a checkpoint, in memory of the tenant's. Any process of the
// tenant's may have written it.

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "src/checkpoint/checksum.h"
#include "src/checkpoint/part_image.h"
#include "src/checkpoint/shard_reader.h"
#include "src/checkpoint/shard_source.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using checkpoint::PartTable;
using checkpoint::PlacedShard;
using checkpoint::Shard;

/// Where the header of an image has the bytes of the table, and their checksum.
constexpr size_t kTableBytesAt = 48;
constexpr size_t kChecksumAt = 72;
/// Largest image: as of memory that is sparse, its end need not be there.
constexpr uint64_t kMostBytes = uint64_t{1} << 62;
/// Most elements that are read of a tensor.
constexpr int64_t kMostElements = 4096;

/// Memory with zeros behind its bytes, as a file has that was made longer.
class SparseImage {
 public:
  explicit SparseImage(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  Status Read(uint64_t at, std::span<std::byte> into) const {
    Require(at <= kMostBytes && into.size() <= kMostBytes - at, "a read lies in the image");
    // Zeros of which there may be gigabytes are not made for each input.
    if (into.size() > bytes_.size() + (1 << 20)) return RemoteError("too much is read");
    std::fill(into.begin(), into.end(), std::byte{0});
    if (into.empty() || at >= bytes_.size()) return Status::Ok();
    const size_t there = std::min<size_t>(into.size(), bytes_.size() - at);
    std::memcpy(into.data(), bytes_.data() + at, there);
    return Status::Ok();
  }
  Result<PartTable> ReadTable() const {
    return checkpoint::ReadPartTable(
        kMostBytes, [this](uint64_t at, std::span<std::byte> into) { return Read(at, into); });
  }

 private:
  std::vector<std::byte> bytes_;
};

/// The shards of an image, as ranks read them.
class ImageSource final : public checkpoint::ShardSource {
 public:
  ImageSource(const SparseImage* image, const PartTable& table)
      : image_(image), image_bytes_(table.bytes) {
    for (const PlacedShard& placed : table.shards) {
      shards_.push_back(placed.shard);
      places_.push_back(placed.at);
    }
  }

  const std::vector<Shard>& shards() const override { return shards_; }
  Status Read(size_t shard, uint64_t at, std::span<std::byte> into) override {
    const uint64_t bytes = BytesOf(shards_[shard]);
    Require(at <= bytes && into.size() <= bytes - at, "a read lies in the shard");
    Require(places_[shard] + bytes <= image_bytes_, "a shard lies in the image");
    return image_->Read(places_[shard] + at, into);
  }

 private:
  const SparseImage* const image_;
  const uint64_t image_bytes_;
  std::vector<Shard> shards_;
  std::vector<uint64_t> places_;
};

/// Reads the beginning of each tensor, as far as there are shards with it.
void ReadTensors(const SparseImage& image, const PartTable& table) {
  ImageSource source(&image, table);
  Result<checkpoint::ShardReader> reader = checkpoint::ShardReader::Of(&source);
  if (!reader.ok()) return;
  for (const auto& [name, view] : reader->tensors()) {
    Shard wanted = {.name = name,
                    .type = view.type,
                    .is_object = view.is_object,
                    .global_shape = view.shape,
                    .box = {.offset = std::vector<int64_t>(view.shape.size(), 0),
                            .shape = std::vector<int64_t>(view.shape.size(), 1)}};
    if (!view.shape.empty()) wanted.box.shape.back() = std::min(view.shape.back(), kMostElements);
    if (!checkpoint::CheckShard(wanted).ok()) continue;
    std::vector<std::byte> into(BytesOf(wanted));
    [[maybe_unused]] const Status read = reader->Read(wanted, into.data());
  }
}

void RequireSound(const PartTable& table) {
  Require(table.identity.rank >= 0 && table.identity.rank < table.identity.ranks,
          "the rank is one of the ranks");
  Require(table.identity.step <= INT64_MAX && table.identity.saved_ns >= 0, "step and time");
  for (const PlacedShard& placed : table.shards) {
    RequireOk(checkpoint::CheckShard(placed.shard), "a shard is sound");
    RequireClean(placed.shard.name, "a shard's name");
    Require(placed.at <= table.bytes && BytesOf(placed.shard) <= table.bytes - placed.at,
            "a shard lies in the image");
  }
}

/// Requires that what was read is read again as it is written.
void RequireSameAgain(const PartTable& table) {
  std::vector<Shard> shards;
  for (const PlacedShard& placed : table.shards) shards.push_back(placed.shard);
  const Result<checkpoint::PartLayout> layout = checkpoint::PartLayout::Of(shards);
  // Shards may overlap, and be too much together.
  if (!layout.ok()) return;
  std::vector<std::byte> bytes(layout->data_at);
  layout->Write(table.identity, bytes.data());
  const Result<PartTable> again = SparseImage(std::move(bytes)).ReadTable();
  RequireOk(again.status(), "an image that was written is read");
  Require(again->identity == table.identity && again->shards == layout->shards,
          "an image is read as it is written");
}

void ReadImageOf(std::vector<std::byte> bytes) {
  const SparseImage image(std::move(bytes));
  const Result<PartTable> table = image.ReadTable();
  if (!table.ok()) return;
  RequireSound(*table);
  ReadTensors(image, *table);
  RequireSameAgain(*table);
}

void Run(std::span<const std::byte> input) {
  std::vector<std::byte> bytes(input.begin(), input.end());
  ReadImageOf(bytes);
  // A checksum that fits leads further than chance does. Whoever writes an image can make one.
  if (bytes.size() < checkpoint::kPartHeaderBytes) return;
  uint64_t table_bytes = 0;
  std::memcpy(&table_bytes, bytes.data() + kTableBytesAt, sizeof table_bytes);
  if (table_bytes > bytes.size() - checkpoint::kPartHeaderBytes) return;
  const uint64_t checksum =
      checkpoint::ChecksumOf(std::span(bytes).subspan(checkpoint::kPartHeaderBytes, table_bytes));
  std::memcpy(bytes.data() + kChecksumAt, &checksum, sizeof checksum);
  ReadImageOf(std::move(bytes));
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(std::as_bytes(std::span(data, size)));
  return 0;
}
