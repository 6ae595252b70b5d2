#include "daemon/events/event_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/clean_text.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Events that a subscriber is sent at a time while it catches up. It bounds how much text is made
/// that the subscriber may not take.
constexpr size_t kEventsOfCatchingUp = 64;
/// Longest part of a job's words that an error repeats, in bytes.
constexpr size_t kMostShownWordsBytes = 64;

}  // namespace

std::string MissedText(uint64_t missed) {
  return fmt::format(
      "event: {}events.missed\n"
      "data: {{\"missed\":{},\"text\":\"{} events have come since, and are kept no more\"}}\n\n",
      kEventTypePrefix, missed, missed);
}

EventCursor EventChannel::CursorOf(const LoggedEvent& logged) const {
  return {logged.event.id(), tag_, logged.place, logged.event.sequence};
}

std::string EventChannel::TextOf(const LoggedEvent& logged) const {
  return fmt::format("id: {}\nevent: {}{}\ndata: {}\n\n", CursorOf(logged).text(), kEventTypePrefix,
                     InfoOf(logged.event.type).name, ToCloudEvent(logged.event));
}

bool EventChannel::Add(Event event) {
  const uint64_t before = log_->last_place();
  event.sequence = log_->LastSequence(event.job) + 1;
  const Result<uint64_t> kept = log_->Append(event);
  if (!kept.ok()) {
    // An event that the log has not counted either was there before, or is none.
    if (log_->last_place() == before) return false;
    Log(LogLevel::kWarning, kLogInit, "an event is told, but not kept: {}",
        kept.status().message());
  }
  const LoggedEvent logged{log_->last_place(), std::move(event)};
  std::string text;
  for (auto& [number, subscriber] : subscribers_) {
    // The log may be read again by now, and what was kept is told in its order.
    if (subscriber.unread) CatchUp(subscriber);
    if (subscriber.behind || subscriber.place >= logged.place) continue;
    if (subscriber.filter.Takes(logged.event)) {
      if (text.empty()) text = TextOf(logged);
      if (!subscriber.sink(text)) {
        subscriber.behind = true;
        continue;
      }
    }
    subscriber.place = logged.place;
    if (subscriber.filter.job == logged.event.job) subscriber.sequence = logged.event.sequence;
  }
  return true;
}

EventChannel::Start EventChannel::StartFromNow(const std::string& job) const {
  return {log_->last_place(), 0, job.empty() ? 0 : log_->LastSequence(job)};
}

// A job's name comes before the beginning of another one's id.
Result<EventFilter> EventChannel::FilterOf(const EventOrder& order) {
  EventFilter filter = order.filter;
  const JobWords& words = order.job;
  if (!filter.job.empty() || words.text.empty()) return filter;
  if (!words.id_of_name.empty() && log_->LastSequence(words.id_of_name) > 0) {
    filter.job = words.id_of_name;
    return filter;
  }
  HZ_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, log_->JobsBeginning(words.text, 2));
  if (jobs.size() == 1) {
    filter.job = jobs.front();
    return filter;
  }
  const std::string shown = CleanText(words.text, kMostShownWordsBytes);
  if (jobs.empty()) {
    return InvalidArgument(
        "no event is kept here of a job of yours with the name '{0}', or whose id begins with "
        "'{0}'; GET /v1/jobs lists the jobs that are here",
        shown);
  }
  return InvalidArgument("the ids of several jobs begin with '{}'; say more of it", shown);
}

Result<EventChannel::Start> EventChannel::StartOf(const EventOrder& order,
                                                  const EventFilter& filter) {
  const std::string& job = filter.job;
  if (!order.after.has_value()) {
    return order.from_the_start ? Start{} : StartFromNow(job);
  }
  const EventCursor& after = *order.after;
  // The reader's place is one of another daemon's, or it knows the event's id alone.
  if (after.tag != tag_) {
    // It began with what was to come there, and does so here.
    if (after.event_id.empty()) return StartFromNow(job);
    const std::optional<EventId> id = ParseEventId(after.event_id);
    if (!id.has_value()) return InvalidArgument("'{}' is no event's id", after.event_id);
    HZ_ASSIGN_OR_RETURN(const LoggedEvent found, log_->Find(*id));
    return StartAt(found.place, job);
  }
  // The number in the cursor is one of the job of the cursor's event.
  const std::optional<EventId> id = ParseEventId(after.event_id);
  if (after.sequence == 0 || (id.has_value() && id->job != job)) return StartAt(after.place, job);
  HZ_ASSIGN_OR_RETURN(const LogPage page, log_->AfterNumber({job, after.sequence}));
  return Start{page.place, page.missed, after.sequence + page.missed};
}

// Of a job of which nothing is kept up to the place, all that is not kept counts as missed.
Result<EventChannel::Start> EventChannel::StartAt(uint64_t place, const std::string& job) const {
  if (job.empty()) return Start{place, 0, 0};
  HZ_ASSIGN_OR_RETURN(const uint64_t sequence, log_->SequenceAt(job, place));
  return Start{place, 0, sequence};
}

Status EventChannel::Subscribe(uint64_t number, const EventOrder& order,
                               const std::function<EventSink()>& open) {
  HZ_ASSIGN_OR_RETURN(const EventFilter filter, FilterOf(order));
  HZ_ASSIGN_OR_RETURN(const Start start, StartOf(order, filter));
  Subscriber& subscriber =
      subscribers_.insert_or_assign(number, Subscriber{filter, open(), start.place, start.sequence})
          .first->second;
  // A stream that has just begun takes these. A reader that is cut off before the first event goes
  // on from here.
  if (!order.after.has_value() && !order.from_the_start) {
    const EventCursor here{"", tag_, start.place, start.sequence};
    static_cast<void>(subscriber.sink(fmt::format("id: {}\n\n", here.text())));
  }
  if (start.missed > 0) static_cast<void>(subscriber.sink(MissedText(start.missed)));
  CatchUp(subscriber);
  return Status::Ok();
}

void EventChannel::Resume(uint64_t number) {
  const auto found = subscribers_.find(number);
  if (found != subscribers_.end() && found->second.behind) CatchUp(found->second);
}

void EventChannel::CatchUp(Subscriber& subscriber) {
  subscriber.unread = false;
  while (true) {
    const Result<LogPage> page = log_->After({subscriber.place, subscriber.sequence},
                                             subscriber.filter, kEventsOfCatchingUp);
    if (!page.ok()) {
      subscriber.unread = true;
      return;
    }
    if (!Tell(subscriber, *page)) return;
    if (!page->more) break;
  }
  subscriber.behind = false;
}

// Returns whether the subscriber has taken all of the page.
bool EventChannel::Tell(Subscriber& subscriber, const LogPage& page) {
  uint64_t told = 0;
  for (const LoggedEvent& logged : page.events) {
    const uint64_t sequence = logged.event.sequence;
    if (!TellMissed(subscriber, logged.missed_before - told, {logged.place - 1, sequence - 1})) {
      return false;
    }
    told = logged.missed_before;
    if (!subscriber.sink(TextOf(logged))) return false;
    subscriber.place = logged.place;
    subscriber.sequence = sequence;
  }
  const uint64_t missed = page.MissedBy(subscriber.filter) - told;
  if (!TellMissed(subscriber, missed, {page.place, page.sequence})) return false;
  subscriber.place = page.place;
  subscriber.sequence = page.sequence;
  return true;
}

// Returns whether the subscriber has taken the notice, if it needs one. What was told is not told
// again if the subscriber cannot take what follows.
bool EventChannel::TellMissed(Subscriber& subscriber, uint64_t missed, const ReaderPlace& up_to) {
  if (missed == 0) return true;
  if (!subscriber.sink(MissedText(missed))) return false;
  subscriber.place = up_to.place;
  subscriber.sequence = up_to.sequence;
  return true;
}

Result<EventChannel::Page> EventChannel::Read(const EventOrder& order, size_t most) {
  HZ_ASSIGN_OR_RETURN(const EventFilter filter, FilterOf(order));
  HZ_ASSIGN_OR_RETURN(Start start, StartOf(order, filter));
  Page read{.events = "[", .next = "", .missed = start.missed, .more = true};
  // A reading of the log may look at many events and list none. The log's size bounds the readings.
  while (read.more && read.next.empty()) {
    HZ_ASSIGN_OR_RETURN(const LogPage page,
                        log_->After({start.place, start.sequence}, filter, most));
    read.missed += page.MissedBy(filter);
    for (const LoggedEvent& logged : page.events) {
      if (read.events.size() > 1) read.events += ',';
      read.events += ToCloudEvent(logged.event);
      read.next = CursorOf(logged).text();
    }
    read.more = page.more;
    start.place = page.place;
    start.sequence = page.sequence;
  }
  read.events += ']';
  return read;
}

}  // namespace harmonaize::daemon
