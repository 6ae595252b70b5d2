#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/events/event_log_database.h"
#include "src/events/event.h"

namespace harmonaize::daemon {

struct EventNumber;

/// Numbers of the last events of jobs, by the jobs' ids.
using LastSequences = std::map<std::string, uint64_t>;

/// Most jobs without a kept event whose last number a log remembers. It bounds the file where a
/// tenant begins one job after the other; whoever resumes after an event of a job that has been
/// forgotten is told that the event was never heard of.
inline constexpr int kMostSilentJobs = 1024;
/// Most events that one reading of a log looks at. It bounds how long others wait for the log.
inline constexpr int kMostEventsOfReading = 1024;
/// Largest place that a file is believed to have reached, which takes 285 years with a million
/// events a second. A larger one is damage.
inline constexpr uint64_t kMostPlace = uint64_t{1} << 53;

/// What has to be known of a log's past to go on after it.
struct LogPast {
  uint64_t last_place = 0;
  LastSequences last_sequences = {};
};

/// An event's row.
struct StoredEvent {
  uint64_t place = 0;
  std::optional<Event> event = std::nullopt;  ///< nullopt: the row is damaged.
};

/// The tables of a log in one SQLite file: it says what went wrong, and leaves what to do about it
/// to EventLog. Places are dense: a place below the last one without a row is that of an event that
/// is kept no more. Thread: one at a time.
class LogStore {
 public:
  /// A store, or why there is none.
  struct Opened {
    std::unique_ptr<LogStore> store = nullptr;
    LogFault fault = LogFault::kNone;
    std::string problem = {};
    /// As far as it can be read from a damaged file.
    LogPast past = {};
  };
  /// Opens a file that PrepareLogFile has prepared; "" stands for memory. An empty file becomes a
  /// log that goes on after `past`. A file of more than `most_pages` is shortened as events are
  /// given up.
  static Opened Open(const std::string& path, int64_t most_pages, const LogPast& past);
  static constexpr int64_t kPageBytes = 4096;

  /// Gives up old events where there are too many, or some were kept before `oldest_seconds`; then
  /// keeps the event, and that jobs have had events up to these numbers. All of that happens, or
  /// nothing. The work is bounded.
  [[nodiscard]] LogFault Append(uint64_t place, const Event& event, int64_t now_seconds,
                                int64_t oldest_seconds, const LastSequences& last_sequences);
  /// Gives up the oldest events, and returns their room to the disk as far as possible.
  [[nodiscard]] LogFault GiveUpForRoom();
  /// Gives up some of the events that were kept before `oldest_seconds`.
  [[nodiscard]] LogFault GiveUpOld(int64_t oldest_seconds);
  /// Moves the journal to the file if it has grown long, for which a full disk costs old events.
  /// This may take as long as the disk takes.
  void CheckpointIfDue();

  /// Visits the rows behind a place, in their order, until `visit` returns false or
  /// kMostEventsOfReading were visited.
  [[nodiscard]] LogFault Read(uint64_t place, const std::function<bool(StoredEvent)>& visit);

  struct Found {
    LogFault fault = LogFault::kNone;
    std::optional<uint64_t> number = std::nullopt;
  };
  /// Finds the number of a job's last event, kept or not; none: the log does not know the job.
  Found LastSequence(const std::string& job);
  /// Finds the place of a kept event.
  Found PlaceOf(const EventId& id);
  Found PlaceOf(const EventNumber& number);
  /// Finds the place of the last kept event of the job before this one.
  Found PlaceBefore(const EventNumber& number);
  /// Finds the number of the first kept event of the job after this one.
  Found NextSequence(const EventNumber& number);
  struct FoundJobs {
    LogFault fault = LogFault::kNone;
    std::vector<std::string> jobs = {};
  };
  /// Finds up to `most` of the jobs that the log knows whose ids begin so.
  FoundJobs JobsBeginning(const std::string& beginning, size_t most);
  /// Finds the number of the last kept event of the job up to a place.
  Found SequenceAt(const std::string& job, uint64_t place);

  /// Returns what can be read of the log's past, also where the file is damaged.
  LogPast ReadPast();
  uint64_t last_place() const { return last_place_; }
  /// All events up to this place have been given up.
  uint64_t given_up() const { return given_up_; }
  const std::string& problem() const { return database_->problem(); }

 private:
  /// A row of the table of jobs.
  struct Job {
    int64_t number = 0;
    bool silent = false;
  };
  /// Events that were given up at once.
  struct GivenUp {
    uint64_t last_place = 0;
    std::map<int64_t, int64_t> last_sequences = {};  ///< By the jobs' numbers.
  };

  LogStore(std::unique_ptr<LogDatabase> database, int64_t most_pages);
  [[nodiscard]] LogFault Create(const LogPast& past);
  [[nodiscard]] LogFault Check(std::string* problem);
  [[nodiscard]] LogFault CheckEnds(std::string* problem);
  [[nodiscard]] LogFault SetMostPages();

  [[nodiscard]] LogFault FindJob(const std::string& name, Job* job);
  [[nodiscard]] LogFault Insert(uint64_t place, const Event& event, int64_t now_seconds);
  [[nodiscard]] LogFault Remember(const LastSequences& last_sequences);
  [[nodiscard]] LogFault GiveUpTooMany(int64_t oldest_seconds);
  [[nodiscard]] LogFault GiveUp(int rows, int64_t before_seconds, bool* any);
  [[nodiscard]] LogFault Collect(int rows, int64_t before_seconds, GivenUp* given_up);
  [[nodiscard]] LogFault ForgetSilentJobs();
  [[nodiscard]] LogFault Commit();
  Found FindNumber(LogStatement& statement);
  Found FindNumber(const char* sql);
  StoredEvent CurrentRow();
  int64_t UsedPages();

  const std::unique_ptr<LogDatabase> database_;
  const int64_t most_pages_;
  int checkpoint_pages_;  ///< Pages of the journal at which it is moved to the file.
  uint64_t last_place_ = 0;
  uint64_t given_up_ = 0;
  uint64_t given_up_in_transaction_ = 0;
  bool is_ours_ = false;  ///< The file has the tables that a log has.

  LogStatement find_job_;
  LogStatement add_job_;
  LogStatement wake_job_;
  LogStatement remember_job_;
  LogStatement count_silent_;
  LogStatement forget_silent_;
  LogStatement add_event_;
  LogStatement oldest_events_;
  LogStatement remove_events_;
  LogStatement set_given_up_;
  LogStatement read_;
  LogStatement last_sequence_;
  LogStatement place_of_;
  LogStatement place_of_id_;
  LogStatement place_before_;
  LogStatement next_sequence_;
  LogStatement sequence_at_;
  LogStatement jobs_beginning_;
  LogStatement page_count_;
  LogStatement free_pages_;
};

}  // namespace harmonaize::daemon
