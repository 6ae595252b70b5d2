#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/events/event_cursor.h"
#include "daemon/events/event_log.h"
#include "src/base/status.h"
#include "src/events/event.h"
#include "src/events/event_filter.h"

namespace harmonaize::daemon {

/// Takes a text for a subscriber: one or more server-sent events. Returns false if the subscriber
/// cannot take it now, or has gone.
using EventSink = std::function<bool(std::string text)>;

/// A job that a subscriber means, and whose id it does not give.
struct JobWords {
  std::string text = {};  ///< The beginning of the job's id, or its name; "": no job is meant.
  std::string id_of_name = {};  ///< The id that a job of this name has.
};

/// What a subscriber asks for.
struct EventOrder {
  EventFilter filter = {};
  /// Where the filter has no job: which one it is to have, among those that the channel knows.
  JobWords job = {};
  /// The last event that it has read; nullopt: none.
  std::optional<EventCursor> after = std::nullopt;
  /// Without `after`: whether it wants to hear what is kept, too, or only what comes from now on.
  bool from_the_start = false;
};

/// The events of one reader, a tenant or the operators: its log, and who hears them. Thread: one at
/// a time.
class EventChannel {
 public:
  /// `tag` is that of the folder of logs (EventCursor::tag).
  EventChannel(std::unique_ptr<EventLog> log, std::string tag)
      : log_(std::move(log)), tag_(std::move(tag)) {}

  /// Numbers an event, keeps it, and tells the subscribers that wait for it. Returns false if the
  /// channel has had the event before. An event that cannot be kept is told all the same.
  bool Add(Event event);

  /// Adds a subscriber with the sink that `open` returns, and sends it as much as it can take of
  /// what it has missed. Errors: kInvalidArgument for an event after which this channel cannot go
  /// on, and for words that stand for no job or for several; `open` is not called then.
  Status Subscribe(uint64_t number, const EventOrder& order,
                   const std::function<EventSink()>& open);
  /// Goes on with a subscriber that could take no more.
  void Resume(uint64_t number);
  void Unsubscribe(uint64_t number) { subscribers_.erase(number); }
  bool has_subscribers() const { return !subscribers_.empty(); }
  size_t subscribers() const { return subscribers_.size(); }

  /// A page of events for a reader that does not wait.
  struct Page {
    std::string events;  ///< CloudEvents, as a JSON array.
    std::string next;    ///< The cursor to go on from; "" if nothing was listed.
    uint64_t missed = 0;
    bool more = false;
  };
  /// Errors: those of Subscribe, and kSystemError if the log cannot be read now.
  Result<Page> Read(const EventOrder& order, size_t most);

 private:
  struct Subscriber {
    EventFilter filter;
    EventSink sink;
    uint64_t place = 0;  ///< It has been sent all that it wants up to here.
    /// For a subscriber of one job: the number of the job's last event that it has been sent, did
    /// not want, or was told to have missed.
    uint64_t sequence = 0;
    bool behind = true;   ///< There is more for it, which it could not take or nobody could read.
    bool unread = false;  ///< It is behind, since the log could not be read.
  };
  /// Where to go on, and how many events are gone that should have come next.
  struct Start {
    uint64_t place = 0;
    uint64_t missed = 0;
    uint64_t sequence = 0;
  };

  Result<EventFilter> FilterOf(const EventOrder& order);
  Start StartFromNow(const std::string& job) const;
  Result<Start> StartOf(const EventOrder& order, const EventFilter& filter);
  Result<Start> StartAt(uint64_t place, const std::string& job) const;
  void CatchUp(Subscriber& subscriber);
  static bool TellMissed(Subscriber& subscriber, uint64_t missed, const ReaderPlace& up_to);
  bool Tell(Subscriber& subscriber, const LogPage& page);
  std::string TextOf(const LoggedEvent& logged) const;
  EventCursor CursorOf(const LoggedEvent& logged) const;

  const std::unique_ptr<EventLog> log_;
  const std::string tag_;
  std::map<uint64_t, Subscriber> subscribers_;
};

/// Returns the server-sent event that tells a subscriber that it has missed events.
std::string MissedText(uint64_t missed);

}  // namespace harmonaize::daemon
