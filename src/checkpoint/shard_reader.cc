#include "src/checkpoint/shard_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "src/checkpoint/box_copy.h"

namespace harmonaize::checkpoint {
namespace {

/// Runs of at least so many bytes are read where they belong. Shorter ones are read together, since
/// each call of a source may be a system call, or a message.
constexpr uint64_t kLongRunBytes = 64 << 10;
/// Bytes that are read together: much more than a run, little beside a processor's cache.
constexpr uint64_t kWindowBytes = 1 << 20;

/// Reads runs of one shard that rise.
class RunReader {
 public:
  RunReader(ShardSource* source, size_t shard, uint64_t shard_bytes)
      : source_(source), shard_(shard), shard_bytes_(shard_bytes) {}

  Status Read(uint64_t at, std::span<std::byte> into) {
    if (into.size() >= kLongRunBytes) return source_->Read(shard_, at, into);
    if (at < begin_ || at + into.size() > begin_ + window_.size()) {
      begin_ = at;
      window_.resize(std::min(kWindowBytes, shard_bytes_ - at));
      HZ_RETURN_IF_ERROR(source_->Read(shard_, begin_, window_));
    }
    std::memcpy(into.data(), window_.data() + (at - begin_), into.size());
    return Status::Ok();
  }

 private:
  ShardSource* const source_;
  const size_t shard_;
  const uint64_t shard_bytes_;
  uint64_t begin_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace

Result<ShardReader> ShardReader::Of(ShardSource* source) {
  ShardReader reader(source);
  const std::vector<Shard>& shards = source->shards();
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    const TensorView view = {shard.type, shard.is_object, shard.global_shape};
    const auto [entry, is_new] = reader.tensors_.emplace(shard.name, view);
    if (!is_new && entry->second != view) {
      return InvalidArgument("ranks have saved '{}' with different types or shapes", shard.name);
    }
    reader.shards_of_[shard.name].push_back(i);
  }
  return reader;
}

Status ShardReader::Read(const Shard& wanted, std::byte* into) {
  HZ_RETURN_IF_ERROR(CheckShard(wanted));
  const auto found = tensors_.find(wanted.name);
  if (found == tensors_.end()) {
    return InvalidArgument("the checkpoint has no '{}'", wanted.name);
  }
  const TensorView asked = {wanted.type, wanted.is_object, wanted.global_shape};
  if (found->second != asked) {
    return InvalidArgument("'{}' was saved as {}{}, and is asked for as {}{}", wanted.name,
                           NameOf(found->second.type), ShapeText(found->second.shape),
                           NameOf(asked.type), ShapeText(asked.shape));
  }
  std::vector<Box> missing;
  if (ElementsOf(wanted.box.shape) > 0) missing.push_back(wanted.box);
  for (const size_t shard : shards_of_.find(wanted.name)->second) {
    std::vector<Box> still_missing;
    for (const Box& box : missing) {
      const std::optional<Box> common = Intersection(box, source_->shards()[shard].box);
      if (!common.has_value()) {
        still_missing.push_back(box);
        continue;
      }
      HZ_RETURN_IF_ERROR(ReadFrom(shard, *common, wanted.box, into));
      AppendRest(box, *common, &still_missing);
    }
    missing = std::move(still_missing);
    if (missing.empty()) return Status::Ok();
  }
  if (missing.empty()) return Status::Ok();
  return InvalidArgument("no rank has saved the elements of '{}' from {} over {}", wanted.name,
                         ShapeText(missing.front().offset), ShapeText(missing.front().shape));
}

Status ShardReader::ReadFrom(size_t shard, const Box& common, const Box& wanted, std::byte* into) {
  const Shard& from = source_->shards()[shard];
  RunReader reader(source_, shard, BytesOf(from));
  return ForEachRun(from.box, wanted, common, BytesOf(from.type), [&](const ByteRun& run) {
    return reader.Read(run.from, std::span(into + run.to, run.bytes));
  });
}

}  // namespace harmonaize::checkpoint
