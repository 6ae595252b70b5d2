#include "cli/events/event_reading.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/json_view.h"
#include "cli/terminal.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

/// Events that are asked for at once: a daemon gives up to a thousand, and the largest ones should
/// still fit an answer.
constexpr uint64_t kEventsOfPage = 500;

/// Name of the event by which a daemon says that a subscriber has missed some.
constexpr std::string_view kMissed = "io.harmonaize.events.missed";

// Keeps the order in which an event's fields stand.
using OrderedJson = nlohmann::ordered_json;

void Append(std::string_view name, const std::string& value, std::string* target) {
  if (!value.empty()) *target += fmt::format("&{}={}", name, EncodeForUrl(value));
}

std::string PageTarget(const EventQuery& query, const std::string& after, uint64_t limit) {
  std::string target = fmt::format("/v1/events?follow=false&limit={}", limit);
  Append("types", query.types, &target);
  Append("job", query.job, &target);
  Append("severity", query.severity, &target);
  Append("after", after, &target);
  return target;
}

/// Writes a page. Returns where the next one begins; "" if there is none.
Result<std::string> WritePage(const std::string& body, EventOutput* output) {
  const OrderedJson page = OrderedJson::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!page.is_object() || !page.contains("events") || !page["events"].is_array()) {
    return RemoteError("the daemon's answer is no page of events");
  }
  HZ_ASSIGN_OR_RETURN(const Json rest, ParseDocument(body));
  if (const uint64_t missed = CountAt(rest, "missed"); missed > 0) output->TellMissed(missed);
  for (const OrderedJson& event : page["events"]) {
    HZ_RETURN_IF_ERROR(output->Write(JsonText(event)));
    if (output->done()) break;
  }
  output->Flush();
  const Json& next = At(rest, "next");
  if (!YesAt(rest, "more") || !next.is_string()) return std::string();
  return next.get<std::string>();
}

Status WriteStreamed(const ServerSentEvent& event, EventOutput* output) {
  if (event.event != kMissed) return output->Write(event.data);
  HZ_ASSIGN_OR_RETURN(const Json notice, ParseDocument(event.data));
  output->TellMissed(CountAt(notice, "missed"));
  return Status::Ok();
}

/// Waits until there may be an event, or the reader of standard output has gone.
Status AwaitNews(int events) {
  pollfd awaited[] = {{events, POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
  if (::poll(awaited, 2, -1) < 0 && errno != EINTR) {
    return ErrnoError(errno, "cannot wait for events");
  }
  return Status::Ok();
}

}  // namespace

Status ReadKeptEvents(const DaemonHttp& daemon, const EventQuery& query, EventOutput* output) {
  std::string after = query.after;
  do {
    const uint64_t limit = std::min(kEventsOfPage, output->left());
    HZ_ASSIGN_OR_RETURN(const std::string body,
                        CallDaemon(daemon, {.target = PageTarget(query, after, limit)}));
    HZ_ASSIGN_OR_RETURN(after, WritePage(body, output));
  } while (!after.empty() && !output->done());
  return Status::Ok();
}

Status FollowEvents(const DaemonHttp& daemon, const EventQuery& query, EventOutput* output) {
  HZ_ASSIGN_OR_RETURN(const auto subscription, EventSubscription::Open({daemon.place}, query));
  bool connected = true;
  while (!output->done()) {
    HZ_ASSIGN_OR_RETURN(const std::optional<ServerSentEvent> event, subscription->Next(0));
    if (subscription->connected() != connected) {
      connected = !connected;
      output->Tell(connected ? "the daemon is back" : "the daemon has gone; waiting for it");
    }
    if (event.has_value()) {
      HZ_RETURN_IF_ERROR(WriteStreamed(*event, output));
      continue;
    }
    output->Flush();
    HZ_RETURN_IF_ERROR(AwaitNews(subscription->fd()));
    if (ReaderHasGone(STDOUT_FILENO)) break;
  }
  output->Flush();
  return Status::Ok();
}

}  // namespace harmonaize
