#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/store/store.h"

namespace harmonaize::store {

/// Removes checkpoints that have made room for newer ones: all committed ones but the `keep` newest
/// (0: none is removed), those that are kept, and those that somebody reads. Then folders that were
/// given up, as RemoveAbandoned does. Nothing is removed that a living process of this store's
/// users is at. Returns how many have made room, and stay since somebody is at them. Errors:
/// kSystemError; what can be removed is removed all the same.
Result<uint32_t> RemoveOld(const Store& store, uint32_t keep);

/// Removes folders of checkpoints that are not committed, that no living process writes to, and in
/// which nothing has changed for some minutes; what dead processes have left in the others; and
/// what removals that were cut short have left. Errors: kSystemError.
Status RemoveAbandoned(const Store& store);

/// Gives up a checkpoint that was not committed, and removes its folder unless others are at it.
void GiveUp(const Store& store, OpenCheckpoint checkpoint);

}  // namespace harmonaize::store
