// Folders of DeepSpeed's universal checkpoint: a file for each state of each parameter, whole.
// Source: deepspeed/checkpoint/ds_to_universal.py and universal_checkpoint.py of DeepSpeed 0.19.

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/store/export_folder.h"
#include "src/store/pickle_writer.h"
#include "src/store/tensor_source.h"
#include "src/store/torch_file.h"

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::Folder;
using checkpoint::Shard;
using checkpoint::StoredCheckpoint;

// How tensors of a store are named that are states of a parameter. What DeepSpeed calls "fp32" is
// the parameter as the optimizer has it; where there is no such state, the module's own.
constexpr std::string_view kModulePrefix = "module.";
constexpr std::string_view kOptimizerPrefix = "optimizer.";
constexpr std::string_view kMasterState = "fp32";
constexpr std::string_view kStepState = "step";
// Objects of a program that are whole files of a universal checkpoint.
constexpr char kOptimizerFile[] = "optimizer_state.pt";
constexpr char kModelFile[] = "mp_rank_00_model_states.pt";
/// The name of the same file where parameters are divided (ZeRO 3).
constexpr char kDividedModelFile[] = "zero_pp_rank_0_mp_rank_00_model_states.pt";
/// The form of universal checkpoints that this is.
constexpr char kUniversalVersion[] = "0.4";
/// The version of DeepSpeed that files which need one are said to be of.
constexpr char kDeepSpeedVersion[] = "0.19.0";

/// A file of the export: this state of this parameter.
struct StateName {
  std::string parameter;
  std::string state;

  auto operator<=>(const StateName&) const = default;
};

/// Returns what "optimizer.exp_avg.PARAMETER" and "module.PARAMETER" name; nullopt for others.
std::optional<StateName> StateNameOf(std::string_view name) {
  if (name.starts_with(kModulePrefix) && name.size() > kModulePrefix.size()) {
    return StateName{std::string(name.substr(kModulePrefix.size())), std::string(kMasterState)};
  }
  if (!name.starts_with(kOptimizerPrefix)) return std::nullopt;
  name.remove_prefix(kOptimizerPrefix.size());
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos || dot + 1 == name.size()) return std::nullopt;
  return StateName{std::string(name.substr(dot + 1)), std::string(name.substr(0, dot))};
}

/// Pushes a key of a dictionary, and an empty list as its value.
void PushEmptyList(const char* key, PickleWriter* pickle) {
  pickle->Text(key);
  pickle->EmptyList();
}

/// Pushes a list of one dictionary without keys: a group of parameters of which nothing is known.
void PushUnknownGroups(PickleWriter* pickle) {
  pickle->Text("param_groups");
  pickle->EmptyList();
  pickle->Mark();
  pickle->EmptyDictionary();
  pickle->Append();
}

/// Returns what a loader wants of an optimizer beside the states of parameters.
std::string OptimizerPickle(uint64_t step) {
  PickleWriter pickle;
  pickle.EmptyDictionary();
  pickle.Mark();
  pickle.Text("ds_version");
  pickle.Text(kDeepSpeedVersion);
  PushUnknownGroups(&pickle);
  pickle.Text("optimizer_state_dict");
  pickle.EmptyDictionary();
  pickle.Mark();
  PushUnknownGroups(&pickle);
  pickle.Text("state");
  pickle.EmptyDictionary();
  pickle.Mark();
  pickle.Number(0);
  pickle.EmptyDictionary();
  pickle.Mark();
  pickle.Text("step");
  pickle.Number(static_cast<int64_t>(step));
  pickle.SetItems();
  pickle.SetItems();
  pickle.SetItems();
  pickle.SetItems();
  return pickle.Finish();
}

/// Returns what a loader wants of a model beside its parameters.
std::string ModelPickle(uint64_t step) {
  PickleWriter pickle;
  pickle.EmptyDictionary();
  pickle.Mark();
  pickle.Text("ds_version");
  pickle.Text(kDeepSpeedVersion);
  pickle.Text("module");
  pickle.EmptyDictionary();
  for (const char* const key : {"dp_world_size", "mp_world_size"}) {
    pickle.Text(key);
    pickle.Number(1);
  }
  for (const char* const key : {"global_steps", "global_samples", "skipped_steps"}) {
    pickle.Text(key);
    pickle.Number(std::string_view(key) == "global_steps" ? static_cast<int64_t>(step) : 0);
  }
  for (const char* const key :
       {"optimizer", "lr_scheduler", "data_sampler", "random_ltd", "sparse_tensor_module_names"}) {
    pickle.Text(key);
    if (std::string_view(key) == "sparse_tensor_module_names") {
      pickle.EmptyList();
    } else {
      pickle.None();
    }
  }
  pickle.Text("universal_checkpoint_info");
  pickle.EmptyDictionary();
  pickle.Mark();
  pickle.Text("universal_checkpoint_version");
  pickle.Text(kUniversalVersion);
  for (const char* const key :
       {"vocabulary_parameter_patterns", "tp_replicated_parameter_patterns",
        "pipeline_replicated_parameter_patterns", "parameter_to_average_patterns",
        "parameter_with_row_parallelism_patterns", "parameter_with_2_sub_params_cat_dim_0",
        "parameter_with_sub_params"}) {
    PushEmptyList(key, &pickle);
  }
  pickle.SetItems();
  pickle.SetItems();
  return pickle.Finish();
}

class UcpExport {
 public:
  UcpExport(StoredCheckpoint* stored, TensorSource* source, ExportFolder* folder)
      : stored_(stored), source_(source), folder_(folder) {
    if (stored->record().format != checkpoint::StoreFormat::kUcp) return;
    for (size_t i = 0; i < stored->shards().size(); ++i) {
      const Shard& shard = stored->shards()[i];
      if (shard.box.shape == shard.global_shape) {
        whole_files_.emplace(shard.name, stored->places()[i].object);
      }
    }
  }

  Status Run() {
    const std::string name = fmt::format("global_step{}_universal", step());
    HZ_ASSIGN_OR_RETURN(const Folder checkpoint, folder_->MakeFolder(name));
    HZ_ASSIGN_OR_RETURN(const Folder zero, checkpoint.Make("zero"));
    ChooseStates();
    for (const auto& [state, tensor] : states_) HZ_RETURN_IF_ERROR(AddState(state, tensor, zero));
    HZ_RETURN_IF_ERROR(AddWholeFile(kOptimizerFile, OptimizerPickle(step()), zero, kOptimizerFile));
    for (const char* const file : {kModelFile, kDividedModelFile}) {
      HZ_RETURN_IF_ERROR(AddWholeFile(kModelFile, ModelPickle(step()), checkpoint, file));
    }
    AddNotes();
    // It comes last, since it makes the folder a checkpoint.
    return folder_->AddText(name, folder_->folder(), "latest_universal");
  }

 private:
  uint64_t step() const { return stored_->record().id.step; }
  const Shard& Tensor(size_t number) const { return source_->tensors()[number]; }

  /// Finds out which tensor is which file. A state of the optimizer comes before the module's own.
  void ChooseStates() {
    for (size_t i = 0; i < source_->tensors().size(); ++i) {
      const Shard& tensor = Tensor(i);
      const std::optional<StateName> state =
          tensor.is_object ? std::nullopt : StateNameOf(tensor.name);
      if (!state.has_value()) {
        const bool is_file = tensor.name == kOptimizerFile || tensor.name == kModelFile;
        if (!tensor.is_object || !is_file) ++left_out_;
        continue;
      }
      const auto [entry, is_new] = states_.emplace(*state, i);
      if (!is_new && tensor.name.starts_with(kOptimizerPrefix)) entry->second = i;
    }
  }

  /// Returns the file of the store that is this tensor's file of the export already.
  std::optional<size_t> FileOf(size_t number) const {
    const auto found = whole_files_.find(Tensor(number).name);
    return found == whole_files_.end() ? std::nullopt : std::optional(found->second);
  }

  Status AddState(const StateName& state, size_t tensor, const Folder& zero) {
    HZ_ASSIGN_OR_RETURN(const Folder folder, zero.Make(state.parameter));
    const std::string file = state.state + ".pt";
    const bool is_bare = state.state == kStepState;
    const std::optional<size_t> object = is_bare ? std::nullopt : FileOf(tensor);
    if (object.has_value()) return folder_->AddObject(*object, folder, file);
    const auto lay_out = [&](std::span<const ShardToLay> shards) {
      if (!is_bare) return UcpLayout(shards.front());
      ObjectLayout layout = {.extension = ".pt"};
      AddTorchFile(TensorPickle(*shards.front().shard), shards.front(), &layout);
      return layout;
    };
    return Write(tensor, lay_out, folder, file);
  }

  Status Write(size_t tensor,
               const std::function<ObjectLayout(std::span<const ShardToLay>)>& lay_out,
               const Folder& into, const std::string& name) {
    const ReadShard read = [&](size_t, uint64_t at, std::span<std::byte> bytes) {
      return source_->Read(tensor, at, bytes);
    };
    return folder_
        ->AddFile(std::span(&Tensor(tensor), 1), !Tensor(tensor).is_object, lay_out, read, into,
                  name)
        .status();
  }

  /// Adds a file that the program has saved as an object, or one that says little.
  Status AddWholeFile(const char* object, std::string otherwise, const Folder& into,
                      const char* file) {
    for (size_t i = 0; i < source_->tensors().size(); ++i) {
      if (!Tensor(i).is_object || Tensor(i).name != object) continue;
      const auto lay_out = [](std::span<const ShardToLay> shards) {
        return UcpLayout(shards.front());
      };
      return Write(i, lay_out, into, file);
    }
    if (file == std::string_view(object)) {
      folder_->summary().notes.push_back(fmt::format(
          "there is no object '{}': the file of the export knows the step and no more", object));
    }
    const ObjectLayout layout = TorchFileLayout(std::move(otherwise));
    std::string text;
    for (const Piece& piece : layout.pieces) text += piece.own;
    return folder_->AddText(text, into, file);
  }

  void AddNotes() {
    if (left_out_ == 0) return;
    folder_->summary().notes.push_back(fmt::format(
        "{} tensors and objects are not in the export: their names are none of 'module.PARAMETER', "
        "'optimizer.STATE.PARAMETER', '{}' and '{}'",
        left_out_, kOptimizerFile, kModelFile));
  }

  StoredCheckpoint* const stored_;
  TensorSource* const source_;
  ExportFolder* const folder_;
  std::map<std::string, size_t> whole_files_;  ///< By the name of the tensor that is all of it.
  std::map<StateName, size_t> states_;
  uint64_t left_out_ = 0;
};

}  // namespace

Status ExportUcp(StoredCheckpoint* stored, ExportFolder* folder) {
  HZ_ASSIGN_OR_RETURN(TensorSource source, TensorSource::Of(stored));
  return UcpExport(stored, &source, folder).Run();
}

}  // namespace harmonaize::store
