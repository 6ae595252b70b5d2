#include "cli/checkpoints/store_table.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>

#include "cli/human_units.h"
#include "cli/text_table.h"
#include "src/base/clean_text.h"
#include "src/checkpoint/json_fields.h"

namespace harmonaize {
namespace {

using checkpoint::BytesOf;
using checkpoint::CheckpointSummary;
using checkpoint::ElementsOf;
using checkpoint::Shard;
using checkpoint::ShardReader;
using checkpoint::StoredCheckpoint;
using checkpoint::TensorView;

/// Characters of a time in UTC up to its seconds.
constexpr size_t kSecondsLength = 19;

std::string StateOf(const CheckpointSummary& one) {
  if (!one.problem.empty()) return "damaged";
  if (!one.is_committed) return "not committed";
  return one.is_kept ? "kept" : "committed";
}

/// The pieces of a tensor, and the ranks that have saved them.
struct Savers {
  uint64_t shards = 0;
  std::set<int32_t> ranks = {};
};

std::map<std::string_view, Savers> SaversOf(const StoredCheckpoint& stored) {
  std::map<std::string_view, Savers> savers;
  for (size_t i = 0; i < stored.shards().size(); ++i) {
    Savers& one = savers[stored.shards()[i].name];
    ++one.shards;
    one.ranks.insert(stored.places()[i].rank);
  }
  return savers;
}

uint64_t BytesOfAll(const TensorView& view) {
  return ElementsOf(view.shape) * BytesOf(view.type);
}

std::string TypeOf(const TensorView& view) {
  return view.is_object ? "object" : std::string(NameOf(view.type));
}

std::string RanksText(const std::set<int32_t>& ranks) {
  if (ranks.size() == 1) return std::to_string(*ranks.begin());
  const bool is_run = *ranks.rbegin() - *ranks.begin() + 1 == static_cast<int32_t>(ranks.size());
  if (is_run) return fmt::format("{}-{}", *ranks.begin(), *ranks.rbegin());
  return fmt::format("{} ranks", ranks.size());
}

}  // namespace

std::string CheckpointTable(const std::vector<CheckpointSummary>& list) {
  if (list.empty()) return "no checkpoints\n";
  TextTable table({"step", "state", "format", "committed (UTC)", "ranks", "bytes", "new", "job"},
                  4);
  for (const CheckpointSummary& one : list) {
    if (one.is_committed) {
      table.Add({std::to_string(one.id.step), StateOf(one), std::string(NameOf(one.format)),
                 one.time.substr(0, kSecondsLength), std::to_string(one.ranks),
                 HumanBytes(one.bytes), HumanBytes(one.new_bytes),
                 one.job.empty() ? kMissing : one.job});
    } else {
      table.Add({std::to_string(one.id.step), StateOf(one), kMissing, kMissing, kMissing, kMissing,
                 kMissing, kMissing});
    }
    if (!one.problem.empty()) table.AddNote(CleanText(one.problem, one.problem.size()));
  }
  std::string text;
  table.Print(&text);
  return text;
}

Json CheckpointDocument(const std::vector<CheckpointSummary>& list) {
  Json checkpoints = Json::array();
  for (const CheckpointSummary& one : list) {
    Json entry = {{"step", one.id.step},
                  {"save", checkpoint::DigitsOf(one.id.save)},
                  {"committed", one.is_committed}};
    if (one.is_committed) {
      entry.update({{"number", one.number},
                    {"ranks", one.ranks},
                    {"bytes", one.bytes},
                    {"new_bytes", one.new_bytes},
                    {"kept", one.is_kept},
                    {"format", NameOf(one.format)},
                    {"job", one.job},
                    {"time", one.time}});
    }
    if (!one.problem.empty()) entry["problem"] = one.problem;
    checkpoints.push_back(std::move(entry));
  }
  return {{"checkpoints", std::move(checkpoints)}};
}

std::string TensorTable(const StoredCheckpoint& stored, const ShardReader& reader) {
  const CheckpointSummary& summary = stored.summary();
  std::string text =
      fmt::format("step {} of {} ranks, {} in {} files, format {}, {}\n\n", summary.id.step,
                  summary.ranks, HumanBytes(summary.bytes), stored.objects().size(),
                  NameOf(summary.format), summary.time.substr(0, kSecondsLength));
  const std::map<std::string_view, Savers> savers = SaversOf(stored);
  TextTable table({"tensor", "type", "shape", "bytes", "shards", "ranks"}, 3);
  for (const auto& [name, view] : reader.tensors()) {
    const Savers& one = savers.at(name);
    table.Add({CleanText(name, name.size()), TypeOf(view), checkpoint::ShapeText(view.shape),
               HumanBytes(BytesOfAll(view)), std::to_string(one.shards), RanksText(one.ranks)});
  }
  table.Print(&text);
  return text;
}

Json TensorDocument(const StoredCheckpoint& stored, const ShardReader& reader) {
  Json document = CheckpointDocument({stored.summary()})["checkpoints"][0];
  document["files"] = stored.objects().size();
  Json tensors = Json::array();
  const std::map<std::string_view, Savers> savers = SaversOf(stored);
  for (const auto& [name, view] : reader.tensors()) {
    const Savers& one = savers.at(name);
    tensors.push_back({{"name", name},
                       {"type", NameOf(view.type)},
                       {"object", view.is_object},
                       {"shape", view.shape},
                       {"bytes", BytesOfAll(view)},
                       {"shards", one.shards},
                       {"ranks", one.ranks}});
  }
  document["tensors"] = std::move(tensors);
  return document;
}

}  // namespace harmonaize
