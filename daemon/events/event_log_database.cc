#include "daemon/events/event_log_database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "daemon/events/event_log_files.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// A statement that goes on for longer than kMostRounds times kStepsOfRound steps of SQLite's
/// machine goes round in a damaged file. The longest honest one, the check of a file that is
/// opened, takes up to a third of it; SQLite makes 10 to 50 million steps a second.
constexpr int kStepsOfRound = 10'000;
constexpr int kMostRounds = 5'000;

/// Largest text or row, in bytes: the data of an event and what stands beside it, and more.
constexpr int kMostRowBytes = 1 << 20;
/// Longest statement, in bytes: the longest of a log's has 300.
constexpr int kMostStatementBytes = 4096;
/// Memory for pages of the file, in KiB, for each log: there may be one for each tenant.
constexpr int kCacheKibibytes = 256;
LogFault FaultOf(int code) {
  // By itself, and not as a part of another code, it says that the header names a version of the
  // format which SQLite may read and not write.
  if (code == SQLITE_READONLY) return LogFault::kDamaged;
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return LogFault::kNone;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return LogFault::kLocked;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return LogFault::kFull;
    // Statements are right for what a log writes, so all else is wrong in the file.
    default: return LogFault::kDamaged;
  }
}

}  // namespace

Result<std::unique_ptr<LogDatabase>> LogDatabase::Open(const std::string& path) {
  sqlite3* connection = nullptr;
  const int opened =
      sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &connection,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (connection == nullptr) return SystemError("there is no memory for SQLite");
  std::unique_ptr<LogDatabase> database(new LogDatabase(connection));
  if (database->Judge(opened) != LogFault::kNone) {
    return SystemError("cannot open {}: {}", path, database->problem());
  }
  database->BoundWork();
  return database;
}

void LogDatabase::BoundWork() {
  int ignored = 0;
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, &ignored);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, &ignored);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, &ignored);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, &ignored);
  sqlite3_limit(connection_, SQLITE_LIMIT_LENGTH, kMostRowBytes);
  sqlite3_limit(connection_, SQLITE_LIMIT_SQL_LENGTH, kMostStatementBytes);
  sqlite3_limit(connection_, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(connection_, SQLITE_LIMIT_WORKER_THREADS, 0);
  sqlite3_progress_handler(
      connection_, kStepsOfRound,
      [](void* self) { return ++static_cast<LogDatabase*>(self)->rounds_ > kMostRounds ? 1 : 0; },
      this);
  // Whoever appends decides when the journal is moved to the file, since that takes long.
  sqlite3_wal_hook(
      connection_,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<LogDatabase*>(self)->journal_pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

LogFault LogDatabase::SetUp() {
  const std::string settings = fmt::format(
      "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
      "PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-{};"
      "PRAGMA journal_size_limit={}; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=0;",
      kCacheKibibytes, kJournalRoomBytes);
  return Execute(settings.c_str());
}

LogDatabase::~LogDatabase() {
  // What another statement still holds would keep the file open for good.
  sqlite3_close_v2(connection_);
}

LogFault LogDatabase::Execute(const char* sql) {
  rounds_ = 0;
  return Judge(sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr));
}

LogFault LogDatabase::Judge(int code) {
  const LogFault fault = FaultOf(code);
  if (fault != LogFault::kNone) problem_ = sqlite3_errmsg(connection_);
  return fault;
}

std::optional<int64_t> LogDatabase::Integer(const char* sql) {
  LogStatement statement(*this, sql);
  if (statement.Step() != LogFault::kNone || !statement.has_row()) return std::nullopt;
  return statement.OptionalInteger(0);
}

std::optional<std::string> LogDatabase::Text(const char* sql) {
  LogStatement statement(*this, sql);
  if (statement.Step() != LogFault::kNone || !statement.has_row()) return std::nullopt;
  return std::string(statement.Text(0));
}

LogFault LogDatabase::Begin() {
  Rollback();
  return Execute("BEGIN IMMEDIATE");
}

LogFault LogDatabase::Commit() {
  const LogFault fault = Execute("COMMIT");
  if (fault != LogFault::kNone) Rollback();
  return fault;
}

void LogDatabase::Rollback() {
  // SQLite has ended the transaction by itself after some failures.
  if (sqlite3_get_autocommit(connection_) != 0) return;
  rounds_ = 0;
  sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
}

bool LogDatabase::Checkpoint() {
  int pages = 0;
  int moved = 0;
  const int code =
      sqlite3_wal_checkpoint_v2(connection_, nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
  if (pages >= 0 && moved >= 0) journal_pages_ = pages - moved;
  if (code != SQLITE_OK) {
    Log(LogLevel::kDebug, kLogInit, "a log of events keeps its journal for now: {}",
        sqlite3_errmsg(connection_));
  }
  return code == SQLITE_OK;
}

LogStatement::~LogStatement() {
  sqlite3_finalize(statement_);
}

bool LogStatement::Prepare() {
  if (statement_ != nullptr) return true;
  database_.rounds_ = 0;
  failed_ = sqlite3_prepare_v3(database_.connection_, sql_, -1, SQLITE_PREPARE_PERSISTENT,
                               &statement_, nullptr);
  return failed_ == SQLITE_OK;
}

void LogStatement::Reset() {
  has_row_ = false;
  failed_ = 0;
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void LogStatement::BindValue(int index, int64_t value) {
  if (Prepare() && failed_ == 0) failed_ = sqlite3_bind_int64(statement_, index, value);
}

void LogStatement::BindValue(int index, std::string_view value) {
  if (!Prepare() || failed_ != 0) return;
  failed_ = sqlite3_bind_text64(statement_, index, value.data() != nullptr ? value.data() : "",
                                value.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void LogStatement::BindValue(int index, std::optional<int64_t> value) {
  if (value) return BindValue(index, *value);
  if (Prepare() && failed_ == 0) failed_ = sqlite3_bind_null(statement_, index);
}

LogFault LogStatement::Step() {
  has_row_ = false;
  if (failed_ == 0) Prepare();
  if (failed_ != 0) return database_.Judge(failed_);
  database_.rounds_ = 0;
  const int code = sqlite3_step(statement_);
  has_row_ = code == SQLITE_ROW;
  const LogFault fault = database_.Judge(code);
  // A statement that is not reset holds what it has locked.
  if (!has_row_) sqlite3_reset(statement_);
  return fault;
}

LogFault LogStatement::Run() {
  const LogFault fault = Step();
  Reset();
  return fault;
}

int64_t LogStatement::Integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::optional<int64_t> LogStatement::OptionalInteger(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Integer(column);
}

std::string_view LogStatement::Text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

bool LogStatement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

}  // namespace harmonaize::daemon
