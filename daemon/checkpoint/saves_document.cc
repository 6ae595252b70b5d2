#include "daemon/checkpoint/saves_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/saturating.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// What is known of one save.
struct SaveHere {
  uint64_t step = 0;
  int ranks = 0;
  bool is_complete = false;
  bool is_kept = false;
  uint64_t bytes = 0;
  double saved_seconds = 0;
  std::set<int> parts = {};      ///< Ranks whose parts are here.
  std::set<int> elsewhere = {};  ///< Ranks whose parts are at other hosts, and not here.
};

json Describe(uint64_t save, const SaveHere& here) {
  return {{"step", here.step},
          {"save", fmt::format("{:016x}", save)},
          {"ranks", here.ranks},
          {"complete", here.is_complete},
          {"epoch_end", here.is_kept},
          {"bytes_here", here.bytes},
          {"saved", here.saved_seconds},
          {"parts_here", here.parts},
          {"parts_elsewhere", here.elsewhere}};
}

void AddOther(const HeldSave& view, SaveHere* save) {
  save->step = view.step;
  save->ranks = view.ranks;
  save->is_complete |= view.complete;
  save->is_kept |= view.kept;
  save->saved_seconds = std::max(save->saved_seconds, view.saved);
  for (const int rank : view.parts) {
    if (!save->parts.contains(rank)) save->elsewhere.insert(rank);
  }
}

}  // namespace

json SavesDocument(const KeptParts::ByBuffer* parts, const std::vector<HostSaves>& others) {
  std::map<uint64_t, SaveHere> saves;
  if (parts != nullptr) {
    for (const auto& [buffer, part] : *parts) {
      if (part.state == PartState::kNothing) continue;
      SaveHere& here = saves[part.save];
      here.step = part.step;
      here.ranks = part.ranks;
      here.is_complete |= part.state == PartState::kComplete;
      here.is_kept |= part.is_kept;
      here.bytes = AddUpTo(here.bytes, part.bytes);
      here.saved_seconds = std::max(here.saved_seconds, part.saved_seconds);
      here.parts.insert(part.rank);
    }
  }
  for (const HostSaves& host : others) {
    for (const HeldSave& view : host.saves) AddOther(view, &saves[view.save]);
  }
  std::vector<std::pair<uint64_t, SaveHere>> newest_first(saves.begin(), saves.end());
  std::sort(newest_first.begin(), newest_first.end(), [](const auto& one, const auto& other) {
    return std::pair(one.second.saved_seconds, one.first) >
           std::pair(other.second.saved_seconds, other.first);
  });
  json list = json::array();
  for (const auto& [save, here] : newest_first) list.push_back(Describe(save, here));
  return {{"checkpoints", std::move(list)}};
}

}  // namespace harmonaize::daemon
