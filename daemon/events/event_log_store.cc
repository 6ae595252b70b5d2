#include "daemon/events/event_log_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <type_traits>

#include <boost/crc.hpp>

#include "daemon/events/event_log.h"

namespace harmonaize::daemon {
namespace {

/// Stands in the header of each log's file: "HzEv".
constexpr int64_t kApplicationId = 0x487a4576;
/// Version of the tables. A log of another version is set aside.
constexpr int64_t kFormatVersion = 1;
/// Most bytes of a file that is checked when it is opened, which takes about 2 ms for each MiB.
/// Damage in a larger one is noticed when it is met.
constexpr int64_t kMostCheckedBytes = int64_t{32} << 20;

/// Pages that are kept free of events, so that the largest event finds room, and giving up events,
/// which may need some pages before it frees any, does too.
constexpr int64_t kSparePages = 24;
/// Events that are given up together. Fewer would leave most of the pages that they touch in use.
constexpr int kRowsOfBatch = 64;
/// Most batches that one append gives up: enough for the largest event among the smallest.
constexpr int kMostBatches = 8;
/// Events that are given up when the disk is full: some tens of pages, so that it is not soon so
/// again.
constexpr int kRowsForRoom = 512;
/// Most free pages that are returned to the disk at once. Each is a page to move.
constexpr int64_t kMostReturnedPages = 64;
/// Pages in the journal from which on it is moved to the file: 1 MiB, about 80 events.
constexpr int kJournalPages = 256;
/// Most pages of the journal, where it cannot be moved to the file: events are refused before it
/// fills the disk.
constexpr int kMostJournalPages = 4096;

/// The tables. `silent` is the place at which the last kept event of a job was given up.
/// Parentheses hold the lines of one statement together: a comma that is missing would join two.
constexpr const char* kSchema[] = {
    ("CREATE TABLE events(place INTEGER PRIMARY KEY,job INTEGER NOT NULL,sequence INTEGER NOT NULL,"
     "kept_since INTEGER NOT NULL,type TEXT NOT NULL,severity INTEGER NOT NULL,time INTEGER NOT "
     "NULL,expiry INTEGER,subject TEXT NOT NULL,data TEXT NOT NULL,id INTEGER NOT NULL,tenant TEXT "
     "NOT NULL,checksum INTEGER NOT NULL)STRICT"),
    ("CREATE TABLE jobs(number INTEGER PRIMARY KEY,name TEXT NOT NULL,last_sequence INTEGER NOT "
     "NULL,silent INTEGER)STRICT"),
    "CREATE TABLE past(id INTEGER PRIMARY KEY,given_up INTEGER NOT NULL)STRICT",
    "CREATE UNIQUE INDEX events_by_job ON events(job,sequence)",
    "CREATE INDEX events_by_id ON events(job,id)",
    "CREATE UNIQUE INDEX jobs_by_name ON jobs(name)",
    "CREATE INDEX silent_jobs ON jobs(silent)WHERE silent IS NOT NULL",
};

constexpr const char* kFindJob = "SELECT number,silent FROM jobs WHERE name=?";
constexpr const char* kAddJob =
    "INSERT INTO jobs(name,last_sequence,silent)VALUES(?,0,NULL)RETURNING number";
constexpr const char* kWakeJob = "UPDATE jobs SET silent=NULL WHERE number=?";
constexpr const char* kRememberJob =
    "UPDATE jobs SET last_sequence=max(last_sequence,?2),silent=CASE WHEN EXISTS(SELECT 1 FROM "
    "events WHERE job=?1)THEN NULL ELSE ?3 END WHERE number=?1";
constexpr const char* kCountSilent = "SELECT count(*)FROM jobs WHERE silent IS NOT NULL";
constexpr const char* kForgetSilent =
    "DELETE FROM jobs WHERE number IN(SELECT number FROM jobs WHERE silent IS NOT NULL ORDER BY "
    "silent LIMIT ?)";
constexpr const char* kAddEvent = "INSERT INTO events VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)";
constexpr const char* kOldestEvents =
    "SELECT place,job,sequence,kept_since FROM events ORDER BY place LIMIT ?";
constexpr const char* kRemoveEvents = "DELETE FROM events WHERE place<=?";
constexpr const char* kSetGivenUp = "UPDATE past SET given_up=? WHERE id=1";
constexpr const char* kRead =
    "SELECT "
    "place,name,sequence,kept_since,type,severity,time,expiry,subject,data,id,tenant,checksum "
    "FROM events LEFT JOIN jobs ON number=job WHERE place>? ORDER BY place LIMIT ?";
constexpr const char* kLastSequence =
    "SELECT max(last_sequence,coalesce((SELECT max(sequence)FROM events WHERE job=number),0))FROM "
    "jobs WHERE name=?";
constexpr const char* kPlaceOf =
    "SELECT place FROM events WHERE job=(SELECT number FROM jobs WHERE name=?)AND sequence=?";
constexpr const char* kPlaceOfId =
    "SELECT place FROM events WHERE job=(SELECT number FROM jobs WHERE name=?)AND id=? LIMIT 1";
constexpr const char* kPlaceBefore =
    "SELECT place FROM events WHERE job=(SELECT number FROM jobs WHERE name=?)AND sequence<? ORDER "
    "BY sequence DESC LIMIT 1";
constexpr const char* kNextSequence =
    "SELECT sequence FROM events WHERE job=(SELECT number FROM jobs WHERE name=?)AND sequence>? "
    "ORDER BY sequence LIMIT 1";
constexpr const char* kSequenceAt =
    "SELECT sequence FROM events WHERE job=(SELECT number FROM jobs WHERE name=?)AND place<=? "
    "ORDER "
    "BY sequence DESC LIMIT 1";

constexpr const char* kJobsBeginning =
    "SELECT name FROM jobs WHERE name>=?1 AND name<?2 ORDER BY name LIMIT ?3";
/// Comes after all characters that ids of jobs have (IsJobId).
constexpr char kAfterIds = '\x7f';

/// Checksum of a row. SQLite has none, and a disk's error in a text would otherwise go unnoticed.
class RowChecksum {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> RowChecksum& Add(T value) {
    crc_.process_bytes(&value, sizeof value);
    return *this;
  }
  RowChecksum& Add(std::string_view text) {
    Add(text.size());
    crc_.process_bytes(text.data(), text.size());
    return *this;
  }
  int64_t value() const { return crc_.checksum(); }

 private:
  boost::crc_32_type crc_;
};

int64_t ChecksumOf(uint64_t place, int64_t kept_since, const Event& event) {
  RowChecksum checksum;
  checksum.Add(place).Add(kept_since).Add(std::string_view(event.job)).Add(event.sequence);
  checksum.Add(InfoOf(event.type).name).Add(static_cast<int64_t>(event.severity));
  checksum.Add(event.time_ns).Add(event.expiry_ns.has_value()).Add(event.expiry_ns.value_or(0));
  checksum.Add(std::string_view(event.subject)).Add(std::string_view(event.data));
  checksum.Add(event.unique).Add(std::string_view(event.tenant));
  return checksum.value();
}

/// Returns the tables and indexes of a file; nullopt if they cannot be read.
std::optional<std::string> SchemaIn(LogDatabase& database) {
  return database.Text(
      "SELECT coalesce(group_concat(sql,';'),'')FROM(SELECT sql FROM sqlite_schema ORDER BY "
      "rowid)");
}

std::string WholeSchema() {
  return fmt::format("{}", fmt::join(kSchema, ";"));
}

}  // namespace

LogStore::LogStore(std::unique_ptr<LogDatabase> database, int64_t most_pages)
    : database_(std::move(database)),
      most_pages_(most_pages),
      checkpoint_pages_(kJournalPages),
      find_job_(*database_, kFindJob),
      add_job_(*database_, kAddJob),
      wake_job_(*database_, kWakeJob),
      remember_job_(*database_, kRememberJob),
      count_silent_(*database_, kCountSilent),
      forget_silent_(*database_, kForgetSilent),
      add_event_(*database_, kAddEvent),
      oldest_events_(*database_, kOldestEvents),
      remove_events_(*database_, kRemoveEvents),
      set_given_up_(*database_, kSetGivenUp),
      read_(*database_, kRead),
      last_sequence_(*database_, kLastSequence),
      place_of_(*database_, kPlaceOf),
      place_of_id_(*database_, kPlaceOfId),
      place_before_(*database_, kPlaceBefore),
      next_sequence_(*database_, kNextSequence),
      sequence_at_(*database_, kSequenceAt),
      jobs_beginning_(*database_, kJobsBeginning),
      page_count_(*database_, "PRAGMA page_count"),
      free_pages_(*database_, "PRAGMA freelist_count") {}

// ---------------------------------------------------------------------------------------------
// Opening

LogStore::Opened LogStore::Open(const std::string& path, int64_t most_pages, const LogPast& past) {
  Result<std::unique_ptr<LogDatabase>> database = LogDatabase::Open(path);
  if (!database.ok()) return {.fault = LogFault::kFull, .problem = database.status().message()};
  Opened opened;
  opened.store.reset(new LogStore(std::move(*database), most_pages));
  LogStore& store = *opened.store;
  opened.fault = store.database_->SetUp();
  if (opened.fault == LogFault::kNone) {
    const std::optional<std::string> schema = SchemaIn(*store.database_);
    // A file without tables is new, or its maker ended before it was made.
    const bool empty = schema && schema->empty() &&
                       store.database_->Integer("PRAGMA application_id").value_or(1) == 0;
    opened.fault = empty ? store.Create(past) : store.Check(&opened.problem);
  }
  if (opened.fault == LogFault::kNone) opened.fault = store.CheckEnds(&opened.problem);
  if (opened.fault == LogFault::kNone) opened.fault = store.SetMostPages();
  if (opened.fault == LogFault::kNone) return opened;
  if (opened.problem.empty()) opened.problem = store.problem();
  if (opened.fault == LogFault::kDamaged) opened.past = store.ReadPast();
  opened.store.reset();
  return opened;
}

LogFault LogStore::Create(const LogPast& past) {
  const std::string settings = fmt::format(
      "PRAGMA page_size={};PRAGMA auto_vacuum=INCREMENTAL;PRAGMA journal_mode=WAL;", kPageBytes);
  LogFault fault = database_->Execute(settings.c_str());
  if (fault == LogFault::kNone) fault = database_->Begin();
  const std::string tables = fmt::format(
      "{};INSERT INTO past VALUES(1,{});PRAGMA application_id={};PRAGMA user_version={}",
      WholeSchema(), past.last_place, kApplicationId, kFormatVersion);
  if (fault == LogFault::kNone) fault = database_->Execute(tables.c_str());
  last_place_ = past.last_place;
  if (fault == LogFault::kNone) fault = Remember(past.last_sequences);
  if (fault == LogFault::kNone) fault = database_->Commit();
  database_->Rollback();
  is_ours_ = fault == LogFault::kNone;
  return fault;
}

LogFault LogStore::Check(std::string* problem) {
  const std::optional<int64_t> application = database_->Integer("PRAGMA application_id");
  const std::optional<int64_t> version = database_->Integer("PRAGMA user_version");
  // The lock is what another process, or another log of this one, has.
  if (const LogFault read = page_count_.Bind().Run(); read != LogFault::kNone) return read;
  if (application != kApplicationId || version != kFormatVersion) {
    *problem = "it is of another format";
    return LogFault::kDamaged;
  }
  is_ours_ = SchemaIn(*database_) == WholeSchema() &&
             database_->Integer("PRAGMA page_size") == kPageBytes &&
             database_->Integer("PRAGMA auto_vacuum") == 2 &&
             database_->Text("PRAGMA encoding") == "UTF-8";
  if (!is_ours_) {
    *problem = "its tables are not those of a log";
    return LogFault::kDamaged;
  }
  if (const auto mode = database_->Text("PRAGMA journal_mode=WAL"); !mode) {
    return LogFault::kFull;
  }
  const int64_t pages = database_->Integer("PRAGMA page_count").value_or(0);
  if (pages > kMostCheckedBytes / kPageBytes) return LogFault::kNone;
  const std::optional<std::string> verdict = database_->Text("PRAGMA quick_check(1)");
  if (verdict == "ok") return LogFault::kNone;
  *problem = verdict.value_or(database_->problem());
  return LogFault::kDamaged;
}

LogFault LogStore::CheckEnds(std::string* problem) {
  const Found given_up = FindNumber("SELECT given_up FROM past WHERE id=1");
  const Found first = FindNumber("SELECT min(place)FROM events");
  const Found last = FindNumber("SELECT max(place)FROM events");
  for (const Found& found : {given_up, first, last}) {
    if (found.fault != LogFault::kNone) return found.fault;
  }
  *problem = "what it says of its past contradicts itself";
  if (!given_up.number) return LogFault::kDamaged;
  given_up_ = *given_up.number;
  last_place_ = last.number.value_or(given_up_);
  if (first.number.value_or(given_up_ + 1) <= given_up_) {
    return LogFault::kDamaged;
  }
  // The last row decides the next place, so it is worth a look at its checksum.
  bool good = true;
  const LogFault fault =
      Read(std::max(last_place_, given_up_ + 1) - 1, [&](const StoredEvent& stored) {
        good = stored.event.has_value();
        return false;
      });
  if (!good) return LogFault::kDamaged;
  problem->clear();
  return fault;
}

LogFault LogStore::SetMostPages() {
  // SQLite takes the size of the file where that is more.
  return database_->Execute(fmt::format("PRAGMA max_page_count={}", most_pages_).c_str());
}

LogPast LogStore::ReadPast() {
  LogPast past;
  if (!is_ours_) return past;
  const auto plausible = [](std::optional<int64_t> place) {
    const auto number = static_cast<uint64_t>(place.value_or(0));
    return number <= kMostPlace ? number : 0;
  };
  past.last_place = std::max(plausible(database_->Integer("SELECT max(place)FROM events")),
                             plausible(database_->Integer("SELECT given_up FROM past")));
  LogStatement jobs(*database_,
                    "SELECT name,max(last_sequence,coalesce((SELECT max(sequence)FROM events WHERE "
                    "job=number),0))FROM jobs ORDER BY number DESC LIMIT ?");
  jobs.Bind(int64_t{kMostSilentJobs});
  while (jobs.Step() == LogFault::kNone && jobs.has_row()) {
    const std::string name(jobs.Text(0));
    const int64_t sequence = jobs.Integer(1);
    if ((name.empty() || IsJobId(name)) && sequence > 0) {
      past.last_sequences[name] = static_cast<uint64_t>(sequence);
    }
  }
  return past;
}

// ---------------------------------------------------------------------------------------------
// Keeping events

LogFault LogStore::Append(uint64_t place, const Event& event, int64_t now_seconds,
                          int64_t oldest_seconds, const LastSequences& last_sequences) {
  if (database_->journal_pages() > kMostJournalPages) return LogFault::kFull;
  LogFault fault = database_->Begin();
  given_up_in_transaction_ = given_up_;
  if (fault == LogFault::kNone) fault = GiveUpTooMany(oldest_seconds);
  if (fault == LogFault::kNone) fault = Remember(last_sequences);
  if (fault == LogFault::kNone) fault = Insert(place, event, now_seconds);
  if (fault == LogFault::kNone) fault = Commit();
  database_->Rollback();
  if (fault == LogFault::kNone) last_place_ = place;
  return fault;
}

LogFault LogStore::Commit() {
  const LogFault fault = database_->Commit();
  if (fault == LogFault::kNone) given_up_ = given_up_in_transaction_;
  return fault;
}

LogFault LogStore::FindJob(const std::string& name, Job* job) {
  LogFault fault = find_job_.Bind(std::string_view(name)).Step();
  if (fault == LogFault::kNone && find_job_.has_row()) {
    *job = {.number = find_job_.Integer(0), .silent = !find_job_.IsNull(1)};
    find_job_.Reset();
    return fault;
  }
  if (fault == LogFault::kNone) fault = add_job_.Bind(std::string_view(name)).Step();
  if (fault == LogFault::kNone) job->number = add_job_.Integer(0);
  add_job_.Reset();
  return fault;
}

LogFault LogStore::Insert(uint64_t place, const Event& event, int64_t now_seconds) {
  Job job;
  LogFault fault = FindJob(event.job, &job);
  if (fault == LogFault::kNone && job.silent) fault = wake_job_.Bind(job.number).Run();
  if (fault != LogFault::kNone) return fault;
  return add_event_
      .Bind(static_cast<int64_t>(place), job.number, static_cast<int64_t>(event.sequence),
            now_seconds, InfoOf(event.type).name, static_cast<int64_t>(event.severity),
            event.time_ns, event.expiry_ns, std::string_view(event.subject),
            std::string_view(event.data), static_cast<int64_t>(event.unique),
            std::string_view(event.tenant), ChecksumOf(place, now_seconds, event))
      .Run();
}

LogFault LogStore::Remember(const LastSequences& last_sequences) {
  for (const auto& [name, sequence] : last_sequences) {
    Job job;
    LogFault fault = FindJob(name, &job);
    if (fault == LogFault::kNone) {
      fault =
          remember_job_
              .Bind(job.number, static_cast<int64_t>(sequence), static_cast<int64_t>(last_place_))
              .Run();
    }
    if (fault != LogFault::kNone) return fault;
  }
  return last_sequences.empty() ? LogFault::kNone : ForgetSilentJobs();
}

// ---------------------------------------------------------------------------------------------
// Giving events up

int64_t LogStore::UsedPages() {
  int64_t used = 0;
  if (page_count_.Bind().Step() == LogFault::kNone && page_count_.has_row()) {
    used = page_count_.Integer(0);
  }
  if (free_pages_.Bind().Step() == LogFault::kNone && free_pages_.has_row()) {
    used -= free_pages_.Integer(0);
  }
  page_count_.Reset();
  free_pages_.Reset();
  return used;
}

LogFault LogStore::GiveUpTooMany(int64_t oldest_seconds) {
  const int64_t most_used = most_pages_ - kSparePages;
  for (int batch = 0; batch < kMostBatches; ++batch) {
    const bool full = UsedPages() > most_used;
    bool any = false;
    const LogFault fault = GiveUp(kRowsOfBatch, full ? INT64_MAX : oldest_seconds, &any);
    if (fault != LogFault::kNone) return fault;
    if (!any) break;
  }
  // The file of a log that may keep less than it once could is shortened step by step.
  page_count_.Bind();
  if (page_count_.Step() != LogFault::kNone || page_count_.Integer(0) <= most_pages_) {
    page_count_.Reset();
    return LogFault::kNone;
  }
  page_count_.Reset();
  return database_->Execute(
      fmt::format("PRAGMA incremental_vacuum({})", kMostReturnedPages).c_str());
}

LogFault LogStore::GiveUp(int rows, int64_t before_seconds, bool* any) {
  GivenUp given_up;
  LogFault fault = Collect(rows, before_seconds, &given_up);
  *any = given_up.last_place > 0;
  if (fault != LogFault::kNone || !*any) return fault;
  const auto last_place = static_cast<int64_t>(given_up.last_place);
  fault = remove_events_.Bind(last_place).Run();
  for (const auto& [job, sequence] : given_up.last_sequences) {
    if (fault == LogFault::kNone) fault = remember_job_.Bind(job, sequence, last_place).Run();
  }
  if (fault == LogFault::kNone) fault = set_given_up_.Bind(last_place).Run();
  if (fault == LogFault::kNone) fault = ForgetSilentJobs();
  if (fault == LogFault::kNone) given_up_in_transaction_ = given_up.last_place;
  return fault;
}

LogFault LogStore::Collect(int rows, int64_t before_seconds, GivenUp* given_up) {
  oldest_events_.Bind(int64_t{rows});
  LogFault fault = oldest_events_.Step();
  while (fault == LogFault::kNone && oldest_events_.has_row()) {
    if (before_seconds != INT64_MAX && oldest_events_.Integer(3) >= before_seconds) break;
    given_up->last_place = static_cast<uint64_t>(oldest_events_.Integer(0));
    int64_t& last = given_up->last_sequences[oldest_events_.Integer(1)];
    last = std::max(last, oldest_events_.Integer(2));
    fault = oldest_events_.Step();
  }
  oldest_events_.Reset();
  return fault;
}

LogFault LogStore::ForgetSilentJobs() {
  const LogFault fault = count_silent_.Bind().Step();
  if (fault != LogFault::kNone) return fault;
  const int64_t too_many = count_silent_.Integer(0) - kMostSilentJobs;
  count_silent_.Reset();
  return too_many > 0 ? forget_silent_.Bind(too_many).Run() : LogFault::kNone;
}

LogFault LogStore::GiveUpForRoom() {
  LogFault fault = database_->Begin();
  given_up_in_transaction_ = given_up_;
  bool any = false;
  if (fault == LogFault::kNone) fault = GiveUp(kRowsForRoom, INT64_MAX, &any);
  // Pages at the end of the file that were never moved there from the journal need not be any more.
  if (fault == LogFault::kNone) {
    fault = database_->Execute(
        fmt::format("PRAGMA incremental_vacuum({})", kMostReturnedPages).c_str());
  }
  if (fault == LogFault::kNone) fault = Commit();
  database_->Rollback();
  database_->Checkpoint();
  return fault;
}

LogFault LogStore::GiveUpOld(int64_t oldest_seconds) {
  LogFault fault = database_->Begin();
  given_up_in_transaction_ = given_up_;
  if (fault == LogFault::kNone) fault = GiveUpTooMany(oldest_seconds);
  if (fault == LogFault::kNone) fault = Commit();
  database_->Rollback();
  return fault;
}

void LogStore::CheckpointIfDue() {
  if (database_->journal_pages() < checkpoint_pages_) return;
  // A file that cannot grow gets smaller as long as the journal has room for that.
  const bool moved = database_->Checkpoint() ||
                     (GiveUpForRoom() == LogFault::kNone && database_->journal_pages() == 0);
  checkpoint_pages_ = moved ? kJournalPages : database_->journal_pages() + kJournalPages / 4;
}

// ---------------------------------------------------------------------------------------------
// Reading

StoredEvent LogStore::CurrentRow() {
  StoredEvent stored{.place = static_cast<uint64_t>(read_.Integer(0))};
  const std::optional<EventType> type = EventTypeNamed(read_.Text(4));
  const std::optional<Severity> severity = SeverityNumbered(read_.Integer(5));
  // A row without a job has a name of NULL.
  if (read_.IsNull(1) || !type || !severity) return stored;
  Event event{.job = std::string(read_.Text(1)),
              .unique = static_cast<uint64_t>(read_.Integer(10)),
              .sequence = static_cast<uint64_t>(read_.Integer(2)),
              .type = *type,
              .subject = std::string(read_.Text(8)),
              .time_ns = read_.Integer(6),
              .severity = *severity,
              .expiry_ns = read_.OptionalInteger(7),
              .data = std::string(read_.Text(9)),
              .tenant = std::string(read_.Text(11))};
  const bool whole = ChecksumOf(stored.place, read_.Integer(3), event) == read_.Integer(12);
  if (whole && CheckEvent(event).ok()) stored.event = std::move(event);
  return stored;
}

LogFault LogStore::Read(uint64_t place, const std::function<bool(StoredEvent)>& visit) {
  // SQLite's integers have a sign.
  if (place > INT64_MAX) return LogFault::kNone;
  read_.Bind(static_cast<int64_t>(place), int64_t{kMostEventsOfReading});
  LogFault fault = read_.Step();
  uint64_t before = place;
  while (fault == LogFault::kNone && read_.has_row()) {
    StoredEvent stored = CurrentRow();
    // Rows come in their order, or the reading might never end.
    if (stored.place <= before) {
      fault = LogFault::kDamaged;
      break;
    }
    before = stored.place;
    if (!visit(std::move(stored))) break;
    fault = read_.Step();
  }
  read_.Reset();
  return fault;
}

LogStore::Found LogStore::FindNumber(LogStatement& statement) {
  Found found{.fault = statement.Step()};
  if (found.fault == LogFault::kNone && statement.has_row() && !statement.IsNull(0)) {
    found.number = static_cast<uint64_t>(statement.Integer(0));
    // Both places and numbers of events, and neither gets that large.
    static_assert(kMostPlace == kMostSequence);
    if (*found.number > kMostPlace) found = {.fault = LogFault::kDamaged};
  }
  statement.Reset();
  return found;
}

LogStore::Found LogStore::FindNumber(const char* sql) {
  LogStatement statement(*database_, sql);
  return FindNumber(statement);
}

LogStore::Found LogStore::LastSequence(const std::string& job) {
  return FindNumber(last_sequence_.Bind(std::string_view(job)));
}

LogStore::Found LogStore::PlaceOf(const EventId& id) {
  return FindNumber(place_of_id_.Bind(std::string_view(id.job), static_cast<int64_t>(id.unique)));
}

LogStore::Found LogStore::PlaceOf(const EventNumber& number) {
  return FindNumber(
      place_of_.Bind(std::string_view(number.job), static_cast<int64_t>(number.sequence)));
}

LogStore::Found LogStore::PlaceBefore(const EventNumber& number) {
  return FindNumber(
      place_before_.Bind(std::string_view(number.job), static_cast<int64_t>(number.sequence)));
}

LogStore::Found LogStore::SequenceAt(const std::string& job, uint64_t place) {
  return FindNumber(sequence_at_.Bind(std::string_view(job), static_cast<int64_t>(place)));
}

LogStore::FoundJobs LogStore::JobsBeginning(const std::string& beginning, size_t most) {
  const std::string end = beginning + kAfterIds;
  jobs_beginning_.Bind(std::string_view(beginning), std::string_view(end),
                       static_cast<int64_t>(most));
  FoundJobs found{.fault = jobs_beginning_.Step()};
  while (found.fault == LogFault::kNone && jobs_beginning_.has_row() && found.jobs.size() < most) {
    // What is no job's id comes from damage; no event can have it.
    std::string job(jobs_beginning_.Text(0));
    if (IsJobId(job)) found.jobs.push_back(std::move(job));
    found.fault = jobs_beginning_.Step();
  }
  jobs_beginning_.Reset();
  return found;
}

LogStore::Found LogStore::NextSequence(const EventNumber& number) {
  return FindNumber(
      next_sequence_.Bind(std::string_view(number.job), static_cast<int64_t>(number.sequence)));
}

}  // namespace harmonaize::daemon
