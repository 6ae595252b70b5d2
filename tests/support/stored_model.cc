#include "tests/support/stored_model.h"

#include <cstring>
#include <utility>

#include "src/base/mix_bits.h"
#include "src/checkpoint/shard_reader.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/commit.h"

namespace harmonaize::testing {
namespace {

using checkpoint::BytesOf;
using checkpoint::ElementType;
using checkpoint::Shard;

Shard RowsOf(const char* name, ElementType type, std::vector<int64_t> whole, int32_t rank,
             int32_t ranks) {
  const int64_t begin = whole[0] * rank / ranks;
  const int64_t end = whole[0] * (rank + 1) / ranks;
  checkpoint::Box box = {.offset = std::vector<int64_t>(whole.size(), 0), .shape = whole};
  box.offset[0] = begin;
  box.shape[0] = end - begin;
  return {.name = name, .type = type, .global_shape = std::move(whole), .box = std::move(box)};
}

Shard WholeOf(std::string name, ElementType type, std::vector<int64_t> shape, bool is_object) {
  checkpoint::Box box = {.offset = std::vector<int64_t>(shape.size(), 0), .shape = shape};
  return {.name = std::move(name),
          .type = type,
          .is_object = is_object,
          .global_shape = std::move(shape),
          .box = std::move(box)};
}

uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0;
  for (const char one : text) hash = MixBits(hash ^ static_cast<unsigned char>(one));
  return hash;
}

}  // namespace

std::vector<Shard> ModelShards(int32_t rank, int32_t ranks) {
  std::vector<Shard> shards = {
      RowsOf("module.embedding", ElementType::kF32, {1003, 640}, rank, ranks),
      RowsOf("module.embedding.frozen", ElementType::kBf16, {2051, 1024}, rank, ranks),
      RowsOf("optimizer.exp_avg.embedding", ElementType::kF32, {1003, 640}, rank, ranks),
      RowsOf("module.head", ElementType::kF16, {13, 3, 5}, rank, ranks),
      WholeOf("rng." + std::to_string(rank), ElementType::kU8, {100 + rank}, true)};
  if (rank == 0) {
    shards.push_back(WholeOf("module.norm.frozen", ElementType::kBf16, {640}, false));
    shards.push_back(WholeOf("module.mask", ElementType::kBool, {7}, false));
    shards.push_back(WholeOf("optimizer.step", ElementType::kI64, {}, false));
    shards.push_back(WholeOf("module.empty", ElementType::kF64, {0, 4}, false));
  }
  return shards;
}

std::vector<std::byte> ModelBytes(const Shard& shard, uint64_t step) {
  const uint64_t seed =
      HashOf(shard.name) ^ (shard.name.ends_with("frozen") ? 0 : MixBits(step + 1));
  std::vector<std::byte> bytes(BytesOf(shard));
  // Only whole rows are divided, so a shard is a run of the tensor's bytes.
  uint64_t row_bytes = BytesOf(shard.type);
  for (size_t i = 1; i < shard.box.shape.size(); ++i) {
    row_bytes *= static_cast<uint64_t>(shard.box.shape[i]);
  }
  const uint64_t first =
      shard.box.offset.empty() ? 0 : static_cast<uint64_t>(shard.box.offset[0]) * row_bytes;
  uint64_t word = 0;
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    const uint64_t at = first + i;
    if (i == 0 || at % 8 == 0) word = MixBits(seed + at / 8);
    bytes[i] = static_cast<std::byte>(word >> (8 * (at % 8)));
    // A value that is neither 0 nor 1 is none.
    if (shard.type == ElementType::kBool) bytes[i] &= std::byte{1};
  }
  return bytes;
}

std::vector<std::byte> ModelImage(const checkpoint::PartIdentity& identity) {
  const Result<checkpoint::PartLayout> layout =
      checkpoint::PartLayout::Of(ModelShards(identity.rank, identity.ranks));
  if (!layout.ok()) return {};
  std::vector<std::byte> image(layout->bytes);
  layout->Write(identity, image.data());
  for (const checkpoint::PlacedShard& placed : layout->shards) {
    const std::vector<std::byte> bytes = ModelBytes(placed.shard, identity.step);
    if (!bytes.empty()) std::memcpy(image.data() + placed.at, bytes.data(), bytes.size());
  }
  return image;
}

checkpoint::ReadImage ReaderOf(const std::vector<std::byte>& image) {
  return [&image](uint64_t at, std::span<std::byte> into) {
    if (at > image.size() || into.size() > image.size() - at) {
      return InvalidArgument("the image ends before byte {}", at + into.size());
    }
    if (!into.empty()) std::memcpy(into.data(), image.data() + at, into.size());
    return Status::Ok();
  };
}

Status SaveModel(const store::Store& store, const checkpoint::OpenStore& options, uint64_t step,
                 uint64_t save, bool is_kept) {
  for (int32_t rank = 0; rank < options.ranks; ++rank) {
    checkpoint::OpenStore own = options;
    own.rank = rank;
    const std::vector<std::byte> image = ModelImage(
        {.step = step, .save = save, .rank = rank, .ranks = options.ranks, .is_kept = is_kept});
    HZ_ASSIGN_OR_RETURN(store::OpenCheckpoint checkpoint,
                        store::OpenCheckpoint::Join(store, {step, save}));
    store::PartWriter writer(&store, own, [] { return Status::Ok(); });
    const checkpoint::SaveImage handed = {
        .step = step, .save = save, .bytes = image.size(), .is_kept = is_kept};
    HZ_RETURN_IF_ERROR(writer.Write(handed, ReaderOf(image), checkpoint).status());
    store::Commit commit(&store, std::move(checkpoint), rank, options.ranks);
    HZ_ASSIGN_OR_RETURN(const bool is_committed, commit.Look());
    if (is_committed != (rank + 1 == options.ranks)) return InternalError("committed too early");
  }
  return Status::Ok();
}

Status CheckModel(const std::string& folder, std::optional<uint64_t> step, int32_t ranks) {
  HZ_ASSIGN_OR_RETURN(const auto stored, checkpoint::StoredCheckpoint::Open(folder, step));
  HZ_ASSIGN_OR_RETURN(checkpoint::ShardReader reader, checkpoint::ShardReader::Of(stored.get()));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    for (const Shard& shard : ModelShards(rank, ranks)) {
      // Objects are those of the ranks that have saved.
      if (shard.is_object && !reader.tensors().contains(shard.name)) continue;
      std::vector<std::byte> bytes(BytesOf(shard));
      HZ_RETURN_IF_ERROR(reader.Read(shard, bytes.data()));
      if (bytes == ModelBytes(shard, stored->summary().id.step)) continue;
      return InvalidArgument("'{}' of step {} is not what was saved", shard.name,
                             stored->summary().id.step);
    }
  }
  return Status::Ok();
}

}  // namespace harmonaize::testing
