#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace harmonaize::daemon {

/// A checkpoint that is kept.
struct KeptSave {
  uint64_t step = 0;
  bool is_epoch_end = false;
};

/// Returns the steps whose checkpoints may go, in the order in which they came: of those that are
/// not the end of an epoch, the newest `keep` stay. The ends of epochs stay, and do not count.
/// Requires: `saves` are in the order in which they were made; keep > 0. A step that comes again,
/// after the job has gone back, is as new as its last checkpoint.
std::vector<uint64_t> StepsToDrop(std::span<const KeptSave> saves, size_t keep);

}  // namespace harmonaize::daemon
