#include "cli/events/event_output.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/command_line.h"
#include "cli/json_view.h"
#include "src/base/wall_clock.h"

namespace harmonaize {

Status EventOutput::Write(const std::string& event) {
  HZ_ASSIGN_OR_RETURN(const Json document, ParseDocument(event));
  if (options_.json) {
    Put(event + "\n");
  } else {
    // The head comes with the first event, so that somebody who hears none sees nothing.
    if (written_ == 0) Put(EventHead(options_.style));
    Put(EventLine(document, options_.style));
    EventLineStyle style = options_.style;
    style.now_seconds = UnixSeconds();
    Put(AnswerLine(document, style));
  }
  ++written_;
  return Status::Ok();
}

void EventOutput::TellMissed(uint64_t missed) {
  Tell(fmt::format("{} event{} here, which the daemon does not keep any more", missed,
                   missed == 1 ? " is missing" : "s are missing"));
}

void EventOutput::Tell(const std::string& what) {
  // In its place among the events, where both go to the same terminal.
  Flush();
  Complain(what);
}

void EventOutput::Put(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0) reader_has_gone_ = true;
}

void EventOutput::Flush() {
  if (std::fflush(stdout) != 0) reader_has_gone_ = true;
}

}  // namespace harmonaize
