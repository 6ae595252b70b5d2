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

#include "daemon/checkpoint/held_saves.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// A checkpoint, as far as this host knows of it.
struct KnownSave {
  HeldSave held;                 ///< All but `parts`. The bytes are those of parts that are here.
  std::set<int> here = {};       ///< Ranks whose parts are here.
  std::set<int> elsewhere = {};  ///< Ranks whose parts are at other hosts, and not here.
  bool is_stored = false;        ///< The provider's store has it whole.
};

json Describe(const KnownSave& save) {
  return {{"step", save.held.step},
          {"save", fmt::format("{:016x}", save.held.save)},
          {"ranks", save.held.ranks},
          {"complete", save.held.complete},
          {"epoch_end", save.held.kept},
          {"bytes_here", save.held.bytes},
          {"saved", save.held.saved},
          {"parts_here", save.here},
          {"parts_elsewhere", save.elsewhere},
          {"stored", save.is_stored}};
}

/// Adds what another host has of a save.
void AddOther(const HeldSave& other, KnownSave* save) {
  HeldSave& held = save->held;
  held.save = other.save;
  held.step = other.step;
  held.ranks = other.ranks;
  held.complete |= other.complete;
  held.kept |= other.kept;
  held.saved = std::max(held.saved, other.saved);
  for (const int rank : other.parts) {
    if (!save->here.contains(rank)) save->elsewhere.insert(rank);
  }
}

/// Adds what the provider's store has of a save.
void AddStored(const StoredSave& stored, KnownSave* save) {
  HeldSave& held = save->held;
  held.save = stored.id.save;
  held.step = stored.id.step;
  held.ranks = stored.ranks;
  held.complete = true;
  held.kept |= stored.is_kept;
  held.saved = std::max(held.saved, stored.saved_seconds);
  save->is_stored = true;
}

}  // namespace

json SavesDocument(const KeptParts::ByBuffer* parts, const std::vector<HostSaves>& others,
                   const std::vector<StoredSave>& stored) {
  std::map<uint64_t, KnownSave> saves;
  if (parts != nullptr) {
    for (HeldSave& held : HeldSaves(*parts)) {
      KnownSave& save = saves[held.save];
      save.here = {held.parts.begin(), held.parts.end()};
      save.held = std::move(held);
    }
  }
  for (const HostSaves& host : others) {
    for (const HeldSave& held : host.saves) AddOther(held, &saves[held.save]);
  }
  for (const StoredSave& one : stored) AddStored(one, &saves[one.id.save]);
  std::vector<KnownSave> newest_first;
  for (auto& [number, save] : saves) newest_first.push_back(std::move(save));
  std::sort(newest_first.begin(), newest_first.end(), [](const auto& one, const auto& other) {
    return std::pair(one.held.saved, one.held.save) > std::pair(other.held.saved, other.held.save);
  });
  json list = json::array();
  for (const KnownSave& save : newest_first) list.push_back(Describe(save));
  return {{"checkpoints", std::move(list)}};
}

}  // namespace harmonaize::daemon
