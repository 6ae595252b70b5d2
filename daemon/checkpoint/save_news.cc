#include "daemon/checkpoint/save_news.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "src/events/event_data.h"

namespace harmonaize::daemon {

JobEvents::News NewsOfMemory(const SaveInMemory& save) {
  EventData data(EventType::kCheckpointSaved,
                 fmt::format("all ranks have step {} in {}", save.step,
                             save.at_peer ? "the memory of other hosts, too" : "memory"));
  data.Set(fields::kStep, save.step)
      .Set(fields::kWhere, save.at_peer ? "peer" : "memory")
      .Set(fields::kBytes, save.bytes)
      .Set(fields::kTookSeconds, save.took_seconds)
      .Set(fields::kStallSeconds, save.stall_seconds);
  return {.type = EventType::kCheckpointSaved, .data = std::move(data)};
}

JobEvents::News NewsOfStore(const RoundToStore& round, const Status& status, double took_seconds) {
  const EventType type = status.ok() ? EventType::kCheckpointSaved : EventType::kCheckpointLost;
  const bool is_their_affair = status.code() == Code::kInvalidUsage;
  const std::string text =
      status.ok() ? fmt::format("step {} is in the provider's store", round.id.step)
                  : fmt::format("step {} is not in the provider's store: {}", round.id.step,
                                is_their_affair ? status.message() : "the store could not take it");
  EventData data(type, text);
  data.Set(fields::kStep, round.id.step).Set(fields::kWhere, "storage");
  if (status.ok()) {
    data.Set(fields::kBytes, round.bytes)
        .Set(fields::kStallSeconds, round.stall_seconds)
        .Set(fields::kTookSeconds, std::max(0.0, took_seconds));
  }
  return {.type = type, .data = std::move(data)};
}

}  // namespace harmonaize::daemon
