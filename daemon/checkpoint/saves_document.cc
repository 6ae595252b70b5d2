#include "daemon/checkpoint/saves_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/saturating.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// What is here of one save.
struct SaveHere {
  uint64_t step = 0;
  int ranks = 0;
  bool is_complete = false;
  bool is_kept = false;
  uint64_t bytes = 0;
  double saved_seconds = 0;
  std::vector<int> parts = {};
};

json Describe(uint64_t save, SaveHere here) {
  std::sort(here.parts.begin(), here.parts.end());
  return {{"step", here.step},           {"save", fmt::format("{:016x}", save)},
          {"ranks", here.ranks},         {"complete", here.is_complete},
          {"epoch_end", here.is_kept},   {"bytes_here", here.bytes},
          {"saved", here.saved_seconds}, {"parts_here", std::move(here.parts)}};
}

}  // namespace

json SavesDocument(const KeptParts::ByBuffer* parts) {
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
      here.parts.push_back(part.rank);
    }
  }
  std::vector<std::pair<uint64_t, SaveHere>> newest_first(saves.begin(), saves.end());
  std::sort(newest_first.begin(), newest_first.end(), [](const auto& one, const auto& other) {
    return std::pair(one.second.saved_seconds, one.first) >
           std::pair(other.second.saved_seconds, other.first);
  });
  json list = json::array();
  for (auto& [save, here] : newest_first) list.push_back(Describe(save, std::move(here)));
  return {{"checkpoints", std::move(list)}};
}

}  // namespace harmonaize::daemon
