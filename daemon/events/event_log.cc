#include "daemon/events/event_log.h"

#include <algorithm>
#include <utility>

#include "daemon/events/event_log_files.h"
#include "daemon/events/event_log_store.h"
#include "src/base/clean_text.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// After a failure, a log tries again what takes long, or throws a file away, only this many
/// seconds later. Meanwhile an event costs one attempt.
constexpr int64_t kPauseSeconds = 1;
/// Most attempts to find room for one event, each of which gives up more old ones.
constexpr int kMostRoomAttempts = 3;
/// Most jobs whose last numbers are kept in memory as well, in case that the file is damaged. It
/// bounds the memory of a log; for a tenant with more jobs the file alone knows the numbers of
/// some.
constexpr size_t kMostRecentJobs = 1024;
/// Longest part of what SQLite says of a damaged file that is logged, in bytes: it may quote the
/// file.
constexpr size_t kMostProblemBytes = 200;
/// Bytes of data from which on a page lists no more events. It bounds a reader's memory.
constexpr size_t kMostPageBytes = 1 << 20;

/// An EventLog in a file, or in memory where the path is "".
class StoredEventLog : public EventLog {
 public:
  StoredEventLog(std::string path, EventRetention retention, std::function<int64_t()> now_seconds)
      : path_(std::move(path)), retention_(retention), now_seconds_(std::move(now_seconds)) {}

  /// Opens the file, and gives up what is too old.
  Status Start();

  Result<uint64_t> Append(const Event& event) override;
  Result<LogPage> After(const ReaderPlace& from, const EventFilter& filter, size_t most) override;
  Result<LogPage> AfterNumber(const EventNumber& number) override;
  Result<uint64_t> SequenceAt(const std::string& job, uint64_t place) override;
  Result<LoggedEvent> Find(const EventId& id) override;
  Result<std::vector<std::string>> JobsBeginning(const std::string& beginning,
                                                 size_t most) override;
  uint64_t last_place() const override { return last_place_; }
  uint64_t LastSequence(const std::string& job) override;

 private:
  using Question = std::function<LogStore::Found(LogStore&)>;

  /// Opens the file, and begins a new one if it is damaged. `past` is what is known besides.
  Status Open(const LogPast& past);
  LogStore::Opened OpenStore(const LogPast& past) const;
  /// Takes over a store that was opened.
  void Use(std::unique_ptr<LogStore> store);
  /// Sets the file aside, and begins one that goes on after `past`.
  Status Replace(const std::string& problem, const LogPast& past);
  /// Replaces a file that turned out to be damaged, unless that happened just now.
  bool ReplaceDamaged();
  /// Opens the file again after a failure, if it is time to. Returns whether there is a store.
  bool IsOpen();
  bool IsTimeToTry() const;
  void Pause() { not_before_seconds_ = now_seconds_() + kPauseSeconds; }

  bool IsKept(const EventId& id);
  LogFault Write(uint64_t place, const Event& event);
  LogFault TryToWrite(uint64_t place, const Event& event);
  LogFault WriteWithRoom(uint64_t place, const Event& event);
  Status NotWritten(const Event& event);
  void Written();

  LogFault ReadPage(const EventFilter& filter, size_t most, LogPage* page);
  Result<std::optional<uint64_t>> Ask(const Question& question);
  /// Returns LastSequence, or an error if that cannot be read now.
  Result<uint64_t> KnownSequence(const std::string& job);
  uint64_t UnwrittenSequence(const std::string& job) const;
  Status CannotRead() const { return SystemError("the events cannot be read: {}", problem_); }

  const std::string path_;
  const EventRetention retention_;
  const std::function<int64_t()> now_seconds_;

  std::unique_ptr<LogStore> store_;  ///< nullptr: the file cannot be used for now.
  uint64_t last_place_ = 0;
  LastSequences recent_;     ///< Of jobs that had events since the log was opened.
  LastSequences unwritten_;  ///< Of jobs whose last events the file does not know of.
  bool failing_ = false;     ///< The last event could not be written.
  std::string problem_ = "the file was replaced just now";  ///< Why the last failure was.
  int64_t not_before_seconds_ = INT64_MIN;                  ///< The end of a pause.
};

/// Notes a job's last number, in a map of bounded size.
void Note(const Event& event, LastSequences* sequences) {
  if (sequences->size() >= kMostRecentJobs && !sequences->contains(event.job)) {
    sequences->erase(sequences->begin());
  }
  (*sequences)[event.job] = event.sequence;
}

/// Returns the past that both tell of; in memory a place is known better than in a damaged file.
LogPast Together(const LogPast& memory, LogPast file) {
  if (memory.last_place > 0) file.last_place = memory.last_place;
  for (const auto& [job, sequence] : memory.last_sequences) {
    uint64_t& last = file.last_sequences[job];
    last = std::max(last, sequence);
  }
  return file;
}

// ---------------------------------------------------------------------------------------------
// Opening

Status StoredEventLog::Start() {
  HZ_RETURN_IF_ERROR(Open({}));
  const LogFault fault = store_->GiveUpOld(now_seconds_() - retention_.most_seconds);
  // Room is made when it is needed.
  return fault == LogFault::kDamaged && !ReplaceDamaged() ? CannotRead() : Status::Ok();
}

LogStore::Opened StoredEventLog::OpenStore(const LogPast& past) const {
  const int64_t most_bytes = std::max(retention_.most_bytes, kLeastLogBytes);
  return LogStore::Open(path_, most_bytes / LogStore::kPageBytes, past);
}

void StoredEventLog::Use(std::unique_ptr<LogStore> store) {
  store_ = std::move(store);
  if (!path_.empty()) ReserveLogJournal(path_);
  last_place_ = std::max(last_place_, store_->last_place());
}

Status StoredEventLog::Open(const LogPast& past) {
  if (!path_.empty()) HZ_RETURN_IF_ERROR(PrepareLogFile(path_));
  LogStore::Opened opened = OpenStore(past);
  switch (opened.fault) {
    case LogFault::kNone: Use(std::move(opened.store)); return Status::Ok();
    case LogFault::kDamaged: return Replace(opened.problem, Together(past, std::move(opened.past)));
    case LogFault::kLocked: return SystemError("{} is in use by another daemon", path_);
    case LogFault::kFull: break;
  }
  return SystemError("cannot use {}: {}", path_, opened.problem);
}

Status StoredEventLog::Replace(const std::string& problem, const LogPast& past) {
  Log(LogLevel::kWarning, kLogInit,
      "the events in {} are lost ({}): the file is set aside as {}.damaged, and a new one begun",
      path_, CleanText(problem, kMostProblemBytes), path_);
  store_.reset();
  if (!path_.empty()) {
    HZ_RETURN_IF_ERROR(SetLogFileAside(path_));
    HZ_RETURN_IF_ERROR(PrepareLogFile(path_));
  }
  LogStore::Opened opened = OpenStore(past);
  if (opened.fault != LogFault::kNone) {
    return SystemError("cannot begin {} anew: {}", path_, opened.problem);
  }
  Use(std::move(opened.store));
  return Status::Ok();
}

bool StoredEventLog::ReplaceDamaged() {
  const std::string problem = store_->problem();
  // A disk that damages all that it is given is not given a new file with each event.
  if (!IsTimeToTry()) {
    store_.reset();
    return false;
  }
  Pause();
  const LogPast past = Together({last_place_, recent_}, store_->ReadPast());
  const Status replaced = Replace(problem, past);
  if (!replaced.ok()) problem_ = replaced.message();
  return replaced.ok();
}

bool StoredEventLog::IsTimeToTry() const {
  const int64_t now = now_seconds_();
  // A clock that was set back does not make the pause longer.
  return now >= not_before_seconds_ || now < not_before_seconds_ - kPauseSeconds;
}

bool StoredEventLog::IsOpen() {
  if (store_ != nullptr) return true;
  if (!IsTimeToTry()) return false;
  Pause();
  Status opened = Open({last_place_, recent_});
  // What was set aside may take all the room that there is.
  if (!opened.ok() && !path_.empty() && HasNoRoomForLog(path_) && RemoveLogFileSetAside(path_)) {
    opened = Open({last_place_, recent_});
  }
  if (!opened.ok()) problem_ = opened.message();
  return opened.ok();
}

// ---------------------------------------------------------------------------------------------
// Appending

Result<uint64_t> StoredEventLog::Append(const Event& event) {
  HZ_RETURN_IF_ERROR(CheckEvent(event));
  const Result<uint64_t> last = KnownSequence(event.job);
  if (last.ok() && event.sequence <= *last) {
    return InvalidUsage("event {} comes after event {} of the same job", event.id(), *last);
  }
  if (IsKept({event.job, event.unique})) {
    return InvalidUsage("event {} is kept already", event.id());
  }
  // A file that is replaced meanwhile goes on after the event before this one.
  const uint64_t place = last_place_ + 1;
  const LogFault fault = last.ok() ? WriteWithRoom(place, event) : LogFault::kFull;
  last_place_ = place;
  // What the file says of the job's number may be more than this.
  if (last.ok()) Note(event, &recent_);
  if (fault != LogFault::kNone) return NotWritten(event);
  Written();
  return place;
}

bool StoredEventLog::IsKept(const EventId& id) {
  if (id.unique == 0) return false;
  const auto place = Ask([&](LogStore& store) { return store.PlaceOf(id); });
  return place.ok() && place->has_value();
}

LogFault StoredEventLog::TryToWrite(uint64_t place, const Event& event) {
  const int64_t now = now_seconds_();
  return store_->Append(place, event, now, now - retention_.most_seconds, unwritten_);
}

LogFault StoredEventLog::Write(uint64_t place, const Event& event) {
  if (!IsOpen()) return LogFault::kFull;
  LogFault fault = TryToWrite(place, event);
  if (fault == LogFault::kDamaged && ReplaceDamaged()) fault = TryToWrite(place, event);
  if (fault != LogFault::kNone && store_ != nullptr) problem_ = store_->problem();
  return fault;
}

LogFault StoredEventLog::WriteWithRoom(uint64_t place, const Event& event) {
  LogFault fault = Write(place, event);
  if (fault != LogFault::kFull || store_ == nullptr || !IsTimeToTry()) return fault;
  if (!path_.empty() && RemoveLogFileSetAside(path_)) fault = Write(place, event);
  for (int attempt = 0; attempt < kMostRoomAttempts && fault == LogFault::kFull; ++attempt) {
    if (store_ == nullptr || store_->GiveUpForRoom() == LogFault::kDamaged) break;
    fault = Write(place, event);
  }
  if (fault != LogFault::kNone) Pause();
  return fault;
}

Status StoredEventLog::NotWritten(const Event& event) {
  Note(event, &unwritten_);
  if (!failing_) {
    Log(LogLevel::kWarning, kLogInit, "events cannot be kept in {} for now: {}", path_, problem_);
  }
  failing_ = true;
  return SystemError("event {} cannot be kept: {}", event.id(), problem_);
}

void StoredEventLog::Written() {
  if (failing_) Log(LogLevel::kInfo, kLogInit, "events are kept in {} again", path_);
  failing_ = false;
  unwritten_.clear();
  store_->CheckpointIfDue();
}

// ---------------------------------------------------------------------------------------------
// Reading

Result<LogPage> StoredEventLog::After(const ReaderPlace& from, const EventFilter& filter,
                                      size_t most) {
  if (!IsOpen()) return CannotRead();
  LogPage page{.place = from.place > last_place_ ? store_->given_up() : from.place,
               .sequence = from.sequence};
  LogFault fault = ReadPage(filter, most, &page);
  if (fault == LogFault::kDamaged && ReplaceDamaged()) {
    page = {.place = std::min(from.place, last_place_), .sequence = from.sequence};
    fault = ReadPage(filter, most, &page);
  }
  if (fault == LogFault::kNone) {
    // What of the job comes after the last row was never written.
    if (!page.more && !filter.job.empty()) page.MissUpTo(LastSequence(filter.job));
    return page;
  }
  if (store_ != nullptr) problem_ = store_->problem();
  return CannotRead();
}

LogFault StoredEventLog::ReadPage(const EventFilter& filter, size_t most, LogPage* page) {
  size_t bytes = 0;
  int looked_at = 0;
  bool full = false;
  const LogFault fault = store_->Read(page->place, [&](StoredEvent stored) {
    full = page->events.size() >= most || bytes >= kMostPageBytes;
    if (full) return false;
    ++looked_at;
    page->missed += stored.place - page->place - 1;
    page->place = stored.place;
    if (!stored.event) {
      ++page->missed;
      return true;
    }
    if (stored.event->job == filter.job) page->ReachNumber(stored.event->sequence);
    if (filter.Takes(*stored.event)) {
      bytes += stored.event->data.size();
      page->events.push_back({stored.place, std::move(*stored.event), page->MissedBy(filter)});
    }
    return true;
  });
  // What comes after the last row was never written.
  if (!full && looked_at < kMostEventsOfReading) {
    page->missed += last_place_ - page->place;
    page->place = last_place_;
  }
  page->more = page->place < last_place_;
  return fault;
}

Result<std::optional<uint64_t>> StoredEventLog::Ask(const Question& question) {
  if (!IsOpen()) return CannotRead();
  LogStore::Found found = question(*store_);
  if (found.fault == LogFault::kDamaged && ReplaceDamaged()) found = question(*store_);
  if (found.fault == LogFault::kNone) return found.number;
  if (store_ != nullptr) problem_ = store_->problem();
  return CannotRead();
}

Result<uint64_t> StoredEventLog::KnownSequence(const std::string& job) {
  const auto recent = recent_.find(job);
  if (recent != recent_.end()) return recent->second;
  HZ_ASSIGN_OR_RETURN(const std::optional<uint64_t> stored,
                      Ask([&](LogStore& store) { return store.LastSequence(job); }));
  return std::max(stored.value_or(0), UnwrittenSequence(job));
}

uint64_t StoredEventLog::UnwrittenSequence(const std::string& job) const {
  const auto unwritten = unwritten_.find(job);
  return unwritten != unwritten_.end() ? unwritten->second : 0;
}

uint64_t StoredEventLog::LastSequence(const std::string& job) {
  const Result<uint64_t> known = KnownSequence(job);
  return known.ok() ? *known : UnwrittenSequence(job);
}

Result<std::vector<std::string>> StoredEventLog::JobsBeginning(const std::string& beginning,
                                                               size_t most) {
  if (!IsOpen()) return CannotRead();
  LogStore::FoundJobs found = store_->JobsBeginning(beginning, most);
  if (found.fault == LogFault::kDamaged && ReplaceDamaged()) {
    found = store_->JobsBeginning(beginning, most);
  }
  if (found.fault == LogFault::kNone) return std::move(found.jobs);
  if (store_ != nullptr) problem_ = store_->problem();
  return CannotRead();
}

Result<LogPage> StoredEventLog::AfterNumber(const EventNumber& id) {
  HZ_ASSIGN_OR_RETURN(const uint64_t last, KnownSequence(id.job));
  if (id.sequence == 0 || id.sequence > last) {
    return InvalidArgument("this log knows of no event {} of job '{}'; its last one is {}",
                           id.sequence, id.job, last);
  }
  LogPage page;
  HZ_ASSIGN_OR_RETURN(std::optional<uint64_t> place,
                      Ask([&](LogStore& store) { return store.PlaceOf(id); }));
  // An event that could not be written left a gap, which After reports behind the one before it.
  if (!place) {
    HZ_ASSIGN_OR_RETURN(place, Ask([&](LogStore& store) { return store.PlaceBefore(id); }));
  }
  if (place) {
    page.place = *place;
  } else {
    HZ_ASSIGN_OR_RETURN(const std::optional<uint64_t> next,
                        Ask([&](LogStore& store) { return store.NextSequence(id); }));
    page.missed = next.value_or(last + 1) - id.sequence - 1;
    if (!IsOpen()) return CannotRead();
    page.place = store_->given_up();
  }
  page.more = page.place < last_place_;
  return page;
}

Result<uint64_t> StoredEventLog::SequenceAt(const std::string& job, uint64_t place) {
  HZ_ASSIGN_OR_RETURN(const std::optional<uint64_t> sequence,
                      Ask([&](LogStore& store) { return store.SequenceAt(job, place); }));
  return sequence.value_or(0);
}

Result<LoggedEvent> StoredEventLog::Find(const EventId& id) {
  HZ_ASSIGN_OR_RETURN(const std::optional<uint64_t> place,
                      Ask([&](LogStore& store) { return store.PlaceOf(id); }));
  if (!place.has_value()) {
    return InvalidArgument("this log has no event {} of job '{}', or keeps it no more",
                           Event{.job = id.job, .unique = id.unique}.id(), id.job);
  }
  LoggedEvent found{.place = *place, .event = {}};
  const LogFault fault = store_->Read(*place - 1, [&](StoredEvent stored) {
    if (stored.event.has_value()) found.event = std::move(*stored.event);
    return false;
  });
  return fault == LogFault::kNone ? Result<LoggedEvent>(std::move(found)) : CannotRead();
}

}  // namespace

Result<std::unique_ptr<EventLog>> EventLog::Open(const std::string& path, EventRetention retention,
                                                 std::function<int64_t()> now_seconds) {
  if (path.empty()) return InvalidArgument("a log of events needs a path");
  auto log = std::make_unique<StoredEventLog>(path, retention, std::move(now_seconds));
  HZ_RETURN_IF_ERROR(log->Start());
  return std::unique_ptr<EventLog>(std::move(log));
}

std::unique_ptr<EventLog> EventLog::InMemory(EventRetention retention,
                                             std::function<int64_t()> now_seconds) {
  auto log = std::make_unique<StoredEventLog>("", retention, std::move(now_seconds));
  if (const Status started = log->Start(); !started.ok()) {
    // Only memory can have run out; each event tries again.
    Log(LogLevel::kWarning, kLogInit, "a log of events in memory: {}", started.message());
  }
  return log;
}

}  // namespace harmonaize::daemon
