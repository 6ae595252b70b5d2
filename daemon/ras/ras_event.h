#pragma once

#include <string>
#include <string_view>

namespace harmonaize::daemon {

/// How a client watches events.
struct RasWatch {
  unsigned groups = 0;  ///< Of RasEventGroup; 0: it does not watch.
  bool json = false;
};

/// Returns what a client that watches is told of events: `text` is what a bus tells its subscribers
/// (EventSink), and `time` is now, as NCCL writes it. "" where the client's groups have none of
/// them.
std::string RasEventText(std::string_view text, const RasWatch& watch, const std::string& time);

/// Returns the time of now at this host, as NCCL writes it: "2026-11-28 21:00:00".
std::string RasTimeText();

}  // namespace harmonaize::daemon
