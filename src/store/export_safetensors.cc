// Folders as Hugging Face has them: model-00001-of-00002.safetensors, ... and an index.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/store/export_folder.h"
#include "src/store/tensor_source.h"

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::Shard;
using checkpoint::StoredCheckpoint;

/// Bytes of tensors after which a file ends: what Hugging Face's own files have at most.
constexpr uint64_t kMostModelFileBytes = uint64_t{5} << 30;
/// Objects of programs are no tensors of a model, and no reader of models looks here.
constexpr char kObjectsFile[] = "objects.safetensors";

/// A file of the export: one of the store's, or tensors that are put together.
struct ModelFile {
  size_t object = SIZE_MAX;
  std::vector<size_t> tensors = {};  ///< By their numbers in TensorSource.
};

class SafetensorsExport {
 public:
  SafetensorsExport(StoredCheckpoint* stored, TensorSource* source, ExportFolder* folder)
      : stored_(stored), source_(source), folder_(folder) {
    for (size_t i = 0; i < source->tensors().size(); ++i) {
      numbers_.emplace(source->tensors()[i].name, i);
    }
  }

  Status Run() {
    TakeWholeFiles();
    DivideTheRest();
    for (size_t i = 0; i < files_.size(); ++i) HZ_RETURN_IF_ERROR(AddModelFile(i));
    if (files_.size() > 1) HZ_RETURN_IF_ERROR(AddIndex());
    return AddObjects();
  }

 private:
  const Shard& Tensor(size_t number) const { return source_->tensors()[number]; }

  std::string NameOf(size_t file) const {
    if (files_.size() == 1) return "model.safetensors";
    return fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, files_.size());
  }

  /// Finds files of the store in which there are whole tensors and nothing else.
  void TakeWholeFiles() {
    if (stored_->record().format != checkpoint::StoreFormat::kSafetensors) return;
    std::map<size_t, std::vector<size_t>> shards_of;
    for (size_t i = 0; i < stored_->places().size(); ++i) {
      shards_of[stored_->places()[i].object].push_back(i);
    }
    for (const auto& [object, shards] : shards_of) {
      std::set<size_t> tensors;
      for (const size_t shard : shards) {
        const size_t number = numbers_.at(stored_->shards()[shard].name);
        const bool is_whole = stored_->shards()[shard].box == Tensor(number).box;
        if (!is_whole || Tensor(number).is_object || taken_.contains(number)) break;
        tensors.insert(number);
      }
      // Several ranks that saved one file alike have named its shards several times.
      std::set<std::string> names;
      for (const size_t shard : shards) names.insert(stored_->shards()[shard].name);
      if (tensors.size() != names.size()) continue;
      taken_.insert(tensors.begin(), tensors.end());
      files_.push_back({object, {tensors.begin(), tensors.end()}});
    }
  }

  void DivideTheRest() {
    bool has_begun = false;
    uint64_t bytes = 0;
    for (size_t i = 0; i < source_->tensors().size(); ++i) {
      if (Tensor(i).is_object) objects_.push_back(i);
      if (Tensor(i).is_object || taken_.contains(i)) continue;
      if (!std::exchange(has_begun, true) || bytes + BytesOf(Tensor(i)) > kMostModelFileBytes) {
        files_.emplace_back();
        bytes = 0;
      }
      files_.back().tensors.push_back(i);
      bytes += BytesOf(Tensor(i));
    }
  }

  Status AddModelFile(size_t file) {
    if (files_[file].object != SIZE_MAX) {
      return folder_->AddObject(files_[file].object, folder_->folder(), NameOf(file));
    }
    return AddTensors(files_[file].tensors, NameOf(file));
  }

  Status AddObjects() {
    if (objects_.empty()) return Status::Ok();
    folder_->summary().notes.push_back(fmt::format(
        "what the program has saved as objects ({}) is in {}", objects_.size(), kObjectsFile));
    return AddTensors(objects_, kObjectsFile);
  }

  Status AddTensors(std::vector<size_t> numbers, const std::string& name) {
    // The widest elements come first, so that all begin at multiples of their size.
    std::stable_sort(numbers.begin(), numbers.end(), [&](size_t one, size_t other) {
      return BytesOf(Tensor(one).type) > BytesOf(Tensor(other).type);
    });
    std::vector<Shard> shards;
    for (const size_t number : numbers) shards.push_back(Tensor(number));
    const ReadShard read = [&](size_t shard, uint64_t at, std::span<std::byte> into) {
      return source_->Read(numbers[shard], at, into);
    };
    return folder_->AddFile(shards, false, &SafetensorsLayout, read, folder_->folder(), name)
        .status();
  }

  Status AddIndex() {
    nlohmann::json weight_map = nlohmann::json::object();
    uint64_t bytes = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const size_t tensor : files_[i].tensors) {
        weight_map[Tensor(tensor).name] = NameOf(i);
        bytes += BytesOf(Tensor(tensor));
      }
    }
    const nlohmann::json index = {{"metadata", {{"total_size", bytes}}},
                                  {"weight_map", std::move(weight_map)}};
    return folder_->AddText(JsonText(index) + "\n", folder_->folder(),
                            "model.safetensors.index.json");
  }

  StoredCheckpoint* const stored_;
  TensorSource* const source_;
  ExportFolder* const folder_;
  std::map<std::string, size_t> numbers_;
  std::set<size_t> taken_;  ///< Tensors that are in a file.
  std::vector<ModelFile> files_;
  std::vector<size_t> objects_;
};

}  // namespace

Status ExportSafetensors(StoredCheckpoint* stored, ExportFolder* folder) {
  HZ_ASSIGN_OR_RETURN(TensorSource source, TensorSource::Of(stored));
  return SafetensorsExport(stored, &source, folder).Run();
}

}  // namespace harmonaize::store
