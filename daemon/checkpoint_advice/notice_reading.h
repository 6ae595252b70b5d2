#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/checkpoint_advice/job_saves.h"
#include "daemon/checkpoint_advice/save_moment.h"
#include "src/events/event.h"

namespace harmonaize::daemon {

/// What an event of a job says of its checkpoints, and of what may end it.
struct SaveNews {
  std::optional<SaveNotice> notice = {};   ///< Something that may end ranks, or news of it.
  std::vector<std::string> ended = {};     ///< SaveNotice::id of what is over, or called off.
  std::optional<SavedReport> saved = {};   ///< A checkpoint that is safe.
  std::optional<SavedReport> lost = {};    ///< One that is not any more: its step and place.
  std::optional<SaveMoment> advised = {};  ///< What was advised, without its notice.
  bool is_failure = false;                 ///< Ranks are lost by their own fault.
};

/// Returns whether events of a type may say anything of it.
bool SaysAnything(EventType type);

/// Reads an event that a job was told, by whichever daemon. `now_seconds` is since 1970. What it
/// says nothing of is empty.
SaveNews NewsIn(const Event& event, double now_seconds);

}  // namespace harmonaize::daemon
