#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harmonaize::daemon {

/// Where a reader is in a daemon's events: what a stream's `id` lines hold. It begins with the
/// event's own id, so that another daemon, which has other places, finds the event by that. A
/// reader that has heard nothing yet has a place alone.
struct EventCursor {
  std::string event_id;   ///< CloudEvents' id of the last event that was read; "": none was.
  std::string tag = {};   ///< Of the folder of logs that place and sequence belong to; "": none.
  uint64_t place = 0;     ///< Of the event in the reader's log.
  uint64_t sequence = 0;  ///< Of the event among those of its job there.

  /// Returns "<event id>@<tag>-<place>-<sequence>", or the event's id alone where there is no tag.
  std::string text() const;
};

/// Returns the cursor that `text` stands for, which may also be an event's id alone; nullopt for
/// any other text.
std::optional<EventCursor> ParseEventCursor(std::string_view text);

}  // namespace harmonaize::daemon
