#include "daemon/checkpoint_advice/retention.h"

#include <algorithm>
#include <set>

namespace harmonaize::daemon {

std::vector<uint64_t> StepsToDrop(std::span<const KeptSave> saves, size_t keep) {
  std::set<uint64_t> seen;
  std::vector<uint64_t> dropped;
  size_t kept = 0;
  // The ends of epochs first: a step that is one in any of its checkpoints stays.
  for (const KeptSave& save : saves) {
    if (save.is_epoch_end) seen.insert(save.step);
  }
  for (auto save = saves.rbegin(); save != saves.rend(); ++save) {
    if (!seen.insert(save->step).second) continue;
    if (kept < keep) {
      ++kept;
    } else {
      dropped.push_back(save->step);
    }
  }
  std::reverse(dropped.begin(), dropped.end());
  return dropped;
}

}  // namespace harmonaize::daemon
