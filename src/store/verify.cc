#include "src/store/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "src/base/read_whole.h"
#include "src/checkpoint/box_copy.h"
#include "src/checkpoint/checksum.h"
#include "src/checkpoint/shard_reader.h"
#include "src/store/sha256.h"

namespace harmonaize::store {
namespace {

using checkpoint::Box;
using checkpoint::Checksum;
using checkpoint::Shard;
using checkpoint::ShardPlace;
using checkpoint::StoredCheckpoint;
using checkpoint::StoredObject;

/// Bytes that are read at once.
constexpr size_t kReadBytes = 2 << 20;
/// Most problems that are told one by one: a person reads no more.
constexpr size_t kMostProblems = 1000;

class Verification {
 public:
  Verification(StoredCheckpoint* stored, const Progress* progress)
      : stored_(stored), progress_(progress), buffer_(kReadBytes) {
    for (const StoredObject& object : stored->objects()) total_ += object.bytes;
    for (size_t i = 0; i < stored->places().size(); ++i) {
      shards_of_[stored->places()[i].object].push_back(i);
    }
  }

  Verdict Run() {
    CheckManifests();
    for (size_t i = 0; i < stored_->objects().size(); ++i) {
      const Status sound = CheckObject(i);
      if (!sound.ok()) AddProblem(sound.message());
    }
    CheckCoverage();
    verdict_.objects = stored_->objects().size();
    verdict_.shards = stored_->shards().size();
    return std::move(verdict_);
  }

 private:
  void AddProblem(std::string problem) {
    if (verdict_.problems.size() < kMostProblems) verdict_.problems.push_back(std::move(problem));
  }

  void CheckManifests() {
    for (size_t rank = 0; rank < stored_->record().parts.size(); ++rank) {
      const std::string name = checkpoint::PartFileName(static_cast<int32_t>(rank));
      const Result<std::string> text =
          stored_->folder().ReadFile(name, checkpoint::kMostManifestBytes);
      if (!text.ok()) {
        AddProblem(text.status().message());
      } else if (Sha256Of(*text) != stored_->record().parts[rank].sha256) {
        AddProblem(fmt::format("{} is not what it was when the checkpoint was committed", name));
      }
    }
  }

  /// Reads a file once, from the beginning to the end.
  Status CheckObject(size_t number) {
    const StoredObject& object = stored_->objects()[number];
    const checkpoint::Folder& folder = stored_->objects_folder();
    HZ_ASSIGN_OR_RETURN(const FileDescriptor file, folder.OpenFile(object.name));
    HZ_ASSIGN_OR_RETURN(const uint64_t bytes, folder.BytesOfFile(object.name));
    if (bytes != object.bytes) {
      return InvalidArgument("{} has {} bytes, and had {}", object.name, bytes, object.bytes);
    }
    const std::vector<size_t>& shards = shards_of_[number];
    std::vector<std::unique_ptr<Checksum>> sums;
    for (size_t i = 0; i < shards.size(); ++i) sums.push_back(std::make_unique<Checksum>());
    Sha256 digest;
    for (uint64_t at = 0; at < bytes; at += buffer_.size()) {
      const auto piece = std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), bytes - at));
      HZ_RETURN_IF_ERROR(ReadWholeAt(file.get(), at, piece, folder.PathOf(object.name)));
      digest.Add(piece);
      for (size_t i = 0; i < shards.size(); ++i) AddTo(sums[i].get(), shards[i], at, piece);
      verdict_.bytes += piece.size();
      (*progress_)(verdict_.bytes, total_);
    }
    for (size_t i = 0; i < shards.size(); ++i) {
      if (sums[i]->value() == stored_->places()[shards[i]].checksum) continue;
      AddProblem(fmt::format("'{}' of rank {} is damaged, in {}", stored_->shards()[shards[i]].name,
                             stored_->places()[shards[i]].rank, object.name));
    }
    if (object.name.starts_with(digest.Finish())) return Status::Ok();
    return InvalidArgument("{} has other contents than its name says", object.name);
  }

  /// Adds what a piece of a file has of a shard.
  void AddTo(Checksum* sum, size_t shard, uint64_t at, std::span<const std::byte> piece) {
    const ShardPlace& place = stored_->places()[shard];
    const uint64_t begin = std::max(at, place.at);
    const uint64_t end = std::min(at + piece.size(), place.at + BytesOf(stored_->shards()[shard]));
    if (begin < end) sum->Add(piece.subspan(begin - at, end - begin));
  }

  void CheckCoverage() {
    const Result<checkpoint::ShardReader> reader = checkpoint::ShardReader::Of(stored_);
    if (!reader.ok()) {
      AddProblem(reader.status().message());
      return;
    }
    verdict_.tensors = reader->tensors().size();
    std::map<std::string_view, std::vector<size_t>> by_name;
    for (size_t i = 0; i < stored_->shards().size(); ++i) {
      by_name[stored_->shards()[i].name].push_back(i);
    }
    for (const auto& [name, view] : reader->tensors()) CheckCovered(name, view, by_name[name]);
  }

  void CheckCovered(const std::string& name, const checkpoint::TensorView& view,
                    const std::vector<size_t>& shards) {
    std::vector<Box> missing;
    const Box whole = {.offset = std::vector<int64_t>(view.shape.size(), 0), .shape = view.shape};
    if (checkpoint::ElementsOf(view.shape) > 0) missing.push_back(whole);
    for (const size_t shard : shards) {
      std::vector<Box> still_missing;
      for (const Box& box : missing) {
        const auto common = checkpoint::Intersection(box, stored_->shards()[shard].box);
        if (common.has_value()) {
          checkpoint::AppendRest(box, *common, &still_missing);
        } else {
          still_missing.push_back(box);
        }
      }
      missing = std::move(still_missing);
      if (missing.empty()) return;
    }
    if (missing.empty()) return;
    AddProblem(fmt::format("no rank has saved the elements of '{}' from {} over {}", name,
                           checkpoint::ShapeText(missing.front().offset),
                           checkpoint::ShapeText(missing.front().shape)));
  }

  StoredCheckpoint* const stored_;
  const Progress* const progress_;
  std::vector<std::byte> buffer_;
  std::map<size_t, std::vector<size_t>> shards_of_;
  uint64_t total_ = 0;
  Verdict verdict_;
};

}  // namespace

Result<Verdict> Verify(StoredCheckpoint* stored, const Progress& progress) {
  return Verification(stored, &progress).Run();
}

}  // namespace harmonaize::store
