#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/events/event.h"
#include "src/events/event_filter.h"

namespace harmonaize::daemon {

/// How much of its events a log keeps.
struct EventRetention {
  /// Size of the file, in bytes; less than kLeastLogBytes counts as that. The journal beside it
  /// takes 2 MiB more, and up to 16 MiB where it cannot be emptied.
  int64_t most_bytes = int64_t{8} << 20;
  int64_t most_seconds = 7 * 86400;  ///< Age of an event, from when it was appended.
};
/// Least size of a log, in bytes: some of the largest events fit.
inline constexpr int64_t kLeastLogBytes = 256 << 10;

/// Number of an event among those of its job in one log.
struct EventNumber {
  std::string job;
  uint64_t sequence = 0;
};

/// An event with its place in a log.
struct LoggedEvent {
  uint64_t place = 0;  ///< Grows with each event of the log, from 1 on.
  Event event;
  /// In a page: how much of what MissedBy counts lies before this event.
  uint64_t missed_before = 0;
};

/// How far a reader has got.
struct ReaderPlace {
  uint64_t place = 0;
  /// For a reader of one job: the number of the job's last event that the reader has had, or has
  /// been told to have missed.
  uint64_t sequence = 0;
};

/// What a reader finds behind a place, or an id.
struct LogPage {
  std::vector<LoggedEvent> events = {};
  /// Where to go on: the place of the last event that was looked at, whether it is listed or not.
  uint64_t place = 0;
  /// Events that came after the reader's place, up to `place`, and are kept no more. Which filter
  /// would have taken them is not known any more, so events of all jobs count.
  uint64_t missed = 0;
  /// Those of the filter's job, whatever types the filter takes, by the job's numbers; 0 without a
  /// job.
  uint64_t missed_of_job = 0;
  uint64_t sequence = 0;  ///< Of the filter's job: the number up to which all were looked at.
  bool more = false;      ///< There are more events behind `place`.

  /// Counts the numbers of the filter's job between the last one and this one, and goes on to it.
  void ReachNumber(uint64_t number) {
    if (number <= sequence) return;
    missed_of_job += number - sequence - 1;
    sequence = number;
  }
  /// Counts the numbers of the filter's job up to this one.
  void MissUpTo(uint64_t number) {
    if (number <= sequence) return;
    missed_of_job += number - sequence;
    sequence = number;
  }
  /// Returns what a reader with the filter is told to have missed.
  uint64_t MissedBy(const EventFilter& filter) const {
    return filter.job.empty() ? missed : missed_of_job;
  }
};

/// The events of one tenant, or of the operators, kept in a SQLite file of its own (mode 0600), so
/// that neither a full nor a damaged log touches another one. What is appended survives the end of
/// the process, however it ends, but not always that of the machine. A file that is damaged, or of
/// another format, is set aside as NAME.damaged (one is kept), and a new one begun; places and the
/// jobs' numbers go on above those of the old one as far as they can be known. Thread: one at a
/// time.
class EventLog {
 public:
  /// Opens or makes the log. `now_seconds` returns the time since 1970, which tests inject. Errors:
  /// kSystemError where the folder cannot be used, or another process or log has the file; the
  /// caller may then go on with a log in memory.
  static Result<std::unique_ptr<EventLog>> Open(const std::string& path, EventRetention retention,
                                                std::function<int64_t()> now_seconds);
  /// Makes a log that is kept in memory only.
  static std::unique_ptr<EventLog> InMemory(EventRetention retention,
                                            std::function<int64_t()> now_seconds);
  virtual ~EventLog() = default;

  /// Keeps an event, and gives up the oldest where there are too many, or they are too old. Returns
  /// its place. Each call does a bounded amount of work; one in about eighty waits for the disk.
  /// Errors: kInvalidArgument for an event that cannot be kept (CheckEvent). kInvalidUsage for an
  /// event whose number is not above that of its job's last one, and for one whose id is kept
  /// already. kSystemError if it cannot be written, though old events have been given up for it:
  /// the event still has a place, which is never used again, and counts as missed. That ends by
  /// itself when there is room.
  virtual Result<uint64_t> Append(const Event& event) = 0;
  /// Returns up to `most` events that the filter takes, behind `from`; looks at a bounded number.
  /// A place that the log has not reached is one of an earlier log: all that is kept comes after
  /// it. Errors: kSystemError if the log cannot be read now.
  virtual Result<LogPage> After(const ReaderPlace& from, const EventFilter& filter,
                                size_t most) = 0;
  /// Returns the place to go on from after the event with this number of a job, without events. For
  /// a number that is kept no more it is a place before the first kept event, with the number of
  /// that job's events after it that the log has given up in `missed`. Errors: kInvalidArgument for
  /// a number that the log has not reached, or where it no longer knows the job; kSystemError if it
  /// cannot be read now.
  virtual Result<LogPage> AfterNumber(const EventNumber& number) = 0;
  /// Returns the number of a job's last kept event up to a place; 0: none is kept there. Errors:
  /// kSystemError if it cannot be read now.
  virtual Result<uint64_t> SequenceAt(const std::string& job, uint64_t place) = 0;
  /// Returns a kept event with its place. Errors: kInvalidArgument for an id of which the log has
  /// never heard, or that is kept no more; kSystemError if it cannot be read now.
  virtual Result<LoggedEvent> Find(const EventId& id) = 0;
  /// Returns up to `most` ids of jobs that begin so, of the jobs with kept events, and of those
  /// whose last number the log remembers. Errors: kSystemError if it cannot be read now.
  virtual Result<std::vector<std::string>> JobsBeginning(const std::string& beginning,
                                                         size_t most) = 0;
  /// The place of the last event; 0: there has been none.
  virtual uint64_t last_place() const = 0;
  /// Number of the last event of a job that was appended, kept or not, as far as that can be read
  /// now; 0: none. Of jobs without a kept event the log remembers this for the kMostSilentJobs last
  /// ones.
  virtual uint64_t LastSequence(const std::string& job) = 0;
};

}  // namespace harmonaize::daemon
