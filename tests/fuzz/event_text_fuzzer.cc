// What callers say of events: ids to resume after, lists of types, and data that an operator sends.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "src/events/event.h"
#include "src/events/event_data.h"
#include "src/events/event_filter.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

void ReadId(std::string_view text) {
  const std::optional<EventId> id = ParseEventId(text);
  if (!id) return;
  const Event event{.job = id->job, .unique = id->unique, .sequence = 1};
  Require(event.id() == text, "an id is written in one way only");
  RequireOk(CheckEvent(event), "an event with that id could be kept");
}

void ReadTypes(std::string_view text) {
  const Result<std::vector<std::string>> types = ParseEventTypes(text);
  if (!types.ok()) return RequireClean(types.status().message(), "an error can be printed");
  Require(types->size() <= 2 * EventTypes().size(), "no name is listed twice");
  std::string again;
  for (const std::string& name : *types) again += (again.empty() ? "" : ",") + name;
  const Result<std::vector<std::string>> reread = ParseEventTypes(again);
  RequireOk(reread.status(), "names are read as they are written");
  Require(*reread == *types, "and are the same");
  const EventFilter filter{.types = *types};
  bool takes_any = false;
  for (const EventTypeInfo& info : EventTypes()) {
    takes_any = takes_any || filter.Takes({.type = info.type});
  }
  Require(takes_any, "a filter of names that exist takes something");
}

void ReadData(EventType type, std::string_view text) {
  if (const Result<std::string> known = KnownEventData(type, text); known.ok()) {
    RequireOk(CheckedEventData(type, *known).status(), "what is left fits the type");
  }
  const Result<std::string> data = CheckedEventData(type, text);
  if (!data.ok()) return RequireClean(data.status().message(), "an error can be printed");
  const Result<std::string> again = CheckedEventData(type, *data);
  RequireOk(again.status(), "data is read as it is written");
  Require(*again == *data, "and is the same");
}

/// Any data, checked or not, makes a line of JSON.
void Send(EventType type, std::string_view text) {
  const std::string sent = ToCloudEvent({.job = "a",
                                         .sequence = 1,
                                         .type = type,
                                         .subject = std::string(text),
                                         .data = std::string(text)});
  Require(sent.find('\n') == std::string::npos, "an event is one line");
  Require(nlohmann::json::accept(sent), "an event is JSON");
}

void Run(Input input) {
  const auto type = static_cast<EventType>(input.TakeUpTo(EventTypes().size() - 1));
  const std::string_view text = TextOf(input.TakeRest());
  ReadId(text);
  ReadTypes(text);
  ReadData(type, text);
  Send(type, text);
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
