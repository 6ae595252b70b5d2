// Folders of PyTorch's distributed checkpoint: __<rank>_<n>.distcp, and a pickle of what is where.
// Source: torch/distributed/checkpoint/metadata.py and filesystem.py of PyTorch 2.1 to 2.15.

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/store/export_folder.h"
#include "src/store/pickle_writer.h"
#include "src/store/torch_file.h"

namespace harmonaize::store {
namespace {

using checkpoint::Box;
using checkpoint::BytesOf;
using checkpoint::ElementsOf;
using checkpoint::Shard;
using checkpoint::ShardPlace;
using checkpoint::StoredCheckpoint;

/// Bytes of shards after which a file ends that is written for the export.
constexpr uint64_t kMostDcpFileBytes = uint64_t{4} << 30;
constexpr char kMetadataModule[] = "torch.distributed.checkpoint.metadata";
constexpr char kFileModule[] = "torch.distributed.checkpoint.filesystem";

/// Beginnings of the names of objects by which harmonaize.checkpoint keeps what is no tensor: plain
/// values, and plans. They are JSON, which torch.load does not read.
constexpr std::string_view kOwnObjects[] = {"harmonaize.values.", "harmonaize.dcp."};

/// Where DCP finds a shard.
struct DcpItem {
  size_t shard = 0;
  std::string file = {};
  uint64_t at = 0;
  uint64_t bytes = 0;
};

// ---------------------------------------------------------------------------------------------
// The pickle

void PushSize(const std::vector<int64_t>& numbers, PickleWriter* pickle) {
  pickle->Global("torch", "Size");
  pickle->Mark();
  pickle->Numbers(numbers);
  pickle->Tuple();
  pickle->Reduce();
}

/// Begins an object of a class; the caller pushes keys and values of its attributes.
void BeginObject(const char* module, const char* name, PickleWriter* pickle) {
  pickle->Global(module, name);
  pickle->EmptyTuple();
  pickle->New();
  pickle->EmptyDictionary();
  pickle->Mark();
}

void EndObject(PickleWriter* pickle) {
  pickle->SetItems();
  pickle->Build();
}

void PushProperties(const Shard& shard, PickleWriter* pickle) {
  pickle->Global(kMetadataModule, "TensorProperties");
  pickle->EmptyTuple();
  pickle->New();
  pickle->Mark();
  PushElementType(shard.type, pickle);
  pickle->Global("torch.serialization", "_get_layout");
  pickle->Mark();
  pickle->Text("torch.strided");
  pickle->Tuple();
  pickle->Reduce();
  pickle->Flag(false);  // whether it requires gradients
  pickle->Global(kMetadataModule, "_MEM_FORMAT_ENCODING");
  pickle->Mark();
  pickle->Number(0);  // contiguous
  pickle->Tuple();
  pickle->Reduce();
  pickle->Flag(false);  // whether it is pinned
  pickle->Tuple();
  pickle->Build();
}

void PushChunk(const Box& box, PickleWriter* pickle) {
  BeginObject(kMetadataModule, "ChunkStorageMetadata", pickle);
  pickle->Text("offsets");
  PushSize(box.offset, pickle);
  pickle->Text("sizes");
  PushSize(box.shape, pickle);
  EndObject(pickle);
}

class DcpMetadata {
 public:
  explicit DcpMetadata(const StoredCheckpoint* stored) : stored_(stored) {}

  void Add(DcpItem item) {
    items_of_[stored_->shards()[item.shard].name].push_back(std::move(item));
  }

  std::string Finish() {
    BeginObject(kMetadataModule, "Metadata", &pickle_);
    pickle_.Text("state_dict_metadata");
    PushDictionary(&DcpMetadata::PushState);
    pickle_.Text("planner_data");
    PushDictionary(&DcpMetadata::PushPath);
    pickle_.Text("storage_data");
    PushStorageData();
    pickle_.Text("storage_meta");
    pickle_.None();
    pickle_.Text("version");
    pickle_.Text("1.0.0");
    EndObject(&pickle_);
    return pickle_.Finish();
  }

 private:
  void PushDictionary(void (DcpMetadata::*push)(const std::string&, const std::vector<DcpItem>&)) {
    pickle_.EmptyDictionary();
    pickle_.Mark();
    for (const auto& [name, items] : items_of_) {
      pickle_.Text(name);
      (this->*push)(name, items);
    }
    pickle_.SetItems();
  }

  void PushState(const std::string&, const std::vector<DcpItem>& items) {
    const Shard& first = stored_->shards()[items.front().shard];
    if (first.is_object) {
      pickle_.Global(kMetadataModule, "BytesStorageMetadata");
      pickle_.EmptyTuple();
      pickle_.New();
      return;
    }
    BeginObject(kMetadataModule, "TensorStorageMetadata", &pickle_);
    pickle_.Text("properties");
    PushProperties(first, &pickle_);
    pickle_.Text("size");
    PushSize(first.global_shape, &pickle_);
    pickle_.Text("chunks");
    pickle_.EmptyList();
    pickle_.Mark();
    for (const DcpItem& item : items) PushChunk(stored_->shards()[item.shard].box, &pickle_);
    pickle_.Append();
    EndObject(&pickle_);
  }

  /// A name of ours is one key of a state, with no other below it.
  void PushPath(const std::string& name, const std::vector<DcpItem>&) {
    pickle_.Mark();
    pickle_.Text(name);
    pickle_.Tuple();
  }

  void PushStorageData() {
    pickle_.EmptyDictionary();
    pickle_.Mark();
    for (const auto& [name, items] : items_of_) {
      for (size_t i = 0; i < items.size(); ++i) PushItem(name, items[i], static_cast<int64_t>(i));
    }
    pickle_.SetItems();
  }

  void PushItem(const std::string& name, const DcpItem& item, int64_t index) {
    const Shard& shard = stored_->shards()[item.shard];
    BeginObject(kMetadataModule, "MetadataIndex", &pickle_);
    pickle_.Text("fqn");
    pickle_.Text(name);
    pickle_.Text("offset");
    if (shard.is_object) {
      pickle_.None();
    } else {
      PushSize(shard.box.offset, &pickle_);
    }
    pickle_.Text("index");
    if (shard.is_object) {
      pickle_.None();
    } else {
      pickle_.Number(index);
    }
    EndObject(&pickle_);
    BeginObject(kFileModule, "_StorageInfo", &pickle_);
    pickle_.Text("relative_path");
    pickle_.Text(item.file);
    pickle_.Text("offset");
    pickle_.Number(static_cast<int64_t>(item.at));
    pickle_.Text("length");
    pickle_.Number(static_cast<int64_t>(item.bytes));
    EndObject(&pickle_);
  }

  const StoredCheckpoint* const stored_;
  std::map<std::string, std::vector<DcpItem>> items_of_;
  PickleWriter pickle_;
};

// ---------------------------------------------------------------------------------------------
// The files

class DcpExport {
 public:
  DcpExport(StoredCheckpoint* stored, ExportFolder* folder)
      : stored_(stored), folder_(folder), metadata_(stored) {}

  Status Run() {
    const bool has_its_files = stored_->record().format == checkpoint::StoreFormat::kDcp;
    std::vector<size_t> to_write;
    for (size_t i = 0; i < stored_->shards().size(); ++i) {
      if (!IsWanted(i)) continue;
      if (has_its_files) {
        HZ_RETURN_IF_ERROR(AddFileOf(i));
      } else {
        to_write.push_back(i);
      }
    }
    if (has_own_objects_) {
      folder_->summary().notes.push_back(
          "plain values, such as a step or a learning rate, are left out: only "
          "harmonaize.checkpoint reads them");
    }
    HZ_RETURN_IF_ERROR(WriteAll(to_write));
    // It comes last, since it makes the folder a checkpoint.
    return folder_->AddText(metadata_.Finish(), folder_->folder(), ".metadata");
  }

 private:
  /// Returns whether DCP is told of a shard: not of one that another rank has saved, too, nor of
  /// our own objects, and of an empty one only where the whole tensor is empty.
  bool IsWanted(size_t number) {
    const Shard& shard = stored_->shards()[number];
    for (const std::string_view prefix : kOwnObjects) {
      if (!shard.is_object || !shard.name.starts_with(prefix)) continue;
      has_own_objects_ = true;
      return false;
    }
    const bool is_idle = ElementsOf(shard.box.shape) == 0 && ElementsOf(shard.global_shape) > 0;
    return !is_idle && seen_.emplace(shard.name, shard.box.offset).second;
  }

  std::string NextFile(int32_t rank) {
    return fmt::format("__{}_{}.distcp", rank, files_of_rank_[rank]++);
  }

  /// Adds the file that a shard lies in, unless it is there.
  Status AddFileOf(size_t number) {
    const ShardPlace& place = stored_->places()[number];
    std::string& file = file_of_object_[place.object];
    if (file.empty()) {
      file = NextFile(place.rank);
      HZ_RETURN_IF_ERROR(folder_->AddObject(place.object, folder_->folder(), file));
    }
    const Shard& shard = stored_->shards()[number];
    metadata_.Add({number, file, shard.is_object ? place.at : place.blob_at,
                   shard.is_object ? BytesOf(shard) : place.blob_bytes});
    return Status::Ok();
  }

  Status WriteAll(const std::vector<size_t>& numbers) {
    std::vector<size_t> together;
    uint64_t bytes = 0;
    for (const size_t number : numbers) {
      const bool is_next =
          !together.empty() &&
          (bytes + BytesOf(stored_->shards()[number]) > kMostDcpFileBytes ||
           stored_->places()[together.back()].rank != stored_->places()[number].rank);
      if (is_next) {
        HZ_RETURN_IF_ERROR(WriteTogether(std::exchange(together, {})));
        bytes = 0;
      }
      together.push_back(number);
      bytes += BytesOf(stored_->shards()[number]);
    }
    return together.empty() ? Status::Ok() : WriteTogether(together);
  }

  Status WriteTogether(const std::vector<size_t>& numbers) {
    std::vector<Shard> shards;
    for (const size_t number : numbers) shards.push_back(stored_->shards()[number]);
    const ReadShard read = [&](size_t shard, uint64_t at, std::span<std::byte> into) {
      return stored_->Read(numbers[shard], at, into);
    };
    const std::string file = NextFile(stored_->places()[numbers.front()].rank);
    HZ_ASSIGN_OR_RETURN(const ObjectLayout layout,
                        folder_->AddFile(shards, true, &DcpLayout, read, folder_->folder(), file));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const LaidShard& laid = layout.shards[i];
      metadata_.Add({numbers[i], file, shards[i].is_object ? laid.at : laid.blob_at,
                     shards[i].is_object ? BytesOf(shards[i]) : laid.blob_bytes});
    }
    return Status::Ok();
  }

  StoredCheckpoint* const stored_;
  ExportFolder* const folder_;
  DcpMetadata metadata_;
  std::set<std::pair<std::string, std::vector<int64_t>>> seen_;
  std::map<size_t, std::string> file_of_object_;
  std::map<int32_t, int> files_of_rank_;
  bool has_own_objects_ = false;
};

}  // namespace

Status ExportDcp(StoredCheckpoint* stored, ExportFolder* folder) {
  return DcpExport(stored, folder).Run();
}

}  // namespace harmonaize::store
