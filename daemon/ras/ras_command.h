#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonaize::daemon {

/// Longest line of a RAS client, in bytes and with its end: as long as NCCL takes. Commands are far
/// shorter.
inline constexpr size_t kMostRasLineBytes = 1024;

/// Groups of events that a client may watch, as bits.
enum RasEventGroup : unsigned { kRasLifecycle = 1, kRasTrace = 2, kRasAllEvents = 3 };

/// One line of a client, understood.
struct RasCommand {
  enum class Kind {
    kGreeting,  ///< It says which version of the protocol it speaks.
    kTimeout,
    kFormat,
    kStatus,
    kMonitor,
    kWrong,    ///< To be answered with `error`.
    kForeign,  ///< A line of HTTP: a browser or a proxy was made to send it. Not to be answered.
  };
  Kind kind = Kind::kWrong;
  int timeout_seconds = 0;  ///< Of kTimeout; 0: none.
  bool json = false;        ///< Of kFormat.
  bool verbose = false;     ///< Of kStatus.
  unsigned groups = 0;      ///< Of kMonitor.
  std::string error = {};   ///< The line to answer with, clean and without its end.
};

/// Most seconds of TIMEOUT; a larger number stands for these.
inline constexpr int kMostRasTimeoutSeconds = 3600;

/// Reads a line without its newline. Words may be in any case, as for NCCL; a carriage return at
/// the end does not count.
RasCommand ParseRasCommand(std::string_view line);

}  // namespace harmonaize::daemon
