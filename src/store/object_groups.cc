#include "src/store/object_groups.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::PlacedShard;

/// A shared file that is being filled.
struct Pack {
  std::vector<size_t> shards;
  std::set<std::string> names;  ///< A safetensors file has each name once.
  uint64_t bytes = 0;
};

class Grouping {
 public:
  explicit Grouping(const std::vector<PlacedShard>& shards) : shards_(shards) {}

  void AddAlone(size_t number) { groups_.push_back({number}); }

  /// Objects share files among themselves: exports put them elsewhere.
  void AddPacked(size_t number) {
    const checkpoint::Shard& shard = shards_[number].shard;
    Pack& pack = shard.is_object ? objects_ : tensors_;
    const bool is_full = pack.bytes + BytesOf(shard) > kMostPackBytes ||
                         pack.shards.size() == kMostPackShards || pack.names.contains(shard.name);
    if (is_full) Close(&pack);
    pack.shards.push_back(number);
    pack.names.insert(shard.name);
    pack.bytes += BytesOf(shard);
  }

  std::vector<std::vector<size_t>> Finish() {
    Close(&tensors_);
    Close(&objects_);
    return std::move(groups_);
  }

 private:
  /// The widest elements come first, so that all begin at multiples of their size: the data of a
  /// safetensors file has no holes.
  void Close(Pack* pack) {
    if (pack->shards.empty()) return;
    std::stable_sort(pack->shards.begin(), pack->shards.end(), [&](size_t one, size_t other) {
      return BytesOf(shards_[one].shard.type) > BytesOf(shards_[other].shard.type);
    });
    groups_.push_back(std::move(pack->shards));
    *pack = Pack();
  }

  const std::vector<PlacedShard>& shards_;
  std::vector<std::vector<size_t>> groups_;
  Pack tensors_;
  Pack objects_;
};

}  // namespace

std::vector<std::vector<size_t>> GroupShards(const std::vector<PlacedShard>& shards,
                                             checkpoint::StoreFormat format) {
  Grouping grouping(shards);
  for (size_t i = 0; i < shards.size(); ++i) {
    const bool is_alone =
        format == checkpoint::StoreFormat::kUcp || BytesOf(shards[i].shard) >= kPackedBelowBytes;
    if (is_alone) {
      grouping.AddAlone(i);
    } else {
      grouping.AddPacked(i);
    }
  }
  return grouping.Finish();
}

}  // namespace harmonaize::store
