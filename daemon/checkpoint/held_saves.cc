#include "daemon/checkpoint/held_saves.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "src/base/saturating.h"

namespace harmonaize::daemon {

std::vector<HeldSave> HeldSaves(const KeptParts::ByBuffer& parts) {
  std::map<uint64_t, HeldSave> saves;
  for (const auto& [buffer, part] : parts) {
    if (part.state == PartState::kNothing) continue;
    HeldSave& save = saves[part.save];
    save.save = part.save;
    save.step = part.step;
    save.ranks = part.ranks;
    save.complete |= part.state == PartState::kComplete;
    save.kept |= part.is_kept;
    save.saved = std::max(save.saved, part.saved_seconds);
    const bool is_known =
        std::find(save.parts.begin(), save.parts.end(), part.rank) != save.parts.end();
    if (is_known) continue;
    save.bytes = AddUpTo(save.bytes, part.bytes);
    save.parts.push_back(part.rank);
  }
  std::vector<HeldSave> newest_first;
  for (auto& [number, save] : saves) newest_first.push_back(std::move(save));
  std::sort(newest_first.begin(), newest_first.end(),
            [](const HeldSave& one, const HeldSave& other) { return one.saved > other.saved; });
  return newest_first;
}

}  // namespace harmonaize::daemon
