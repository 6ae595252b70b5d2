#include "daemon/promises/record_store.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "daemon/events/event_log_files.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Marks a file as one of records: "HzRc".
constexpr int64_t kRecordsApplicationId = 0x487a5263;
/// Version of the file's form. A file of another version is set aside.
constexpr int64_t kRecordsVersion = 1;
constexpr int64_t kRecordsPageBytes = 4096;
/// Largest file, in pages: kMostRecords of the usual length of a quarter of a KiB fit many times.
constexpr int64_t kMostRecordPages = 4096;
/// Pages of the journal at which it is moved to the file.
constexpr int kRecordsCheckpointPages = 64;

constexpr char kRecordsTable[] =
    "CREATE TABLE records(kind TEXT NOT NULL,key TEXT NOT NULL,text TEXT NOT NULL,"
    "PRIMARY KEY(kind,key))WITHOUT ROWID";

}  // namespace

RecordStore::RecordStore(std::unique_ptr<LogDatabase> database)
    : database_(std::move(database)),
      read_(*database_, "SELECT kind,key,text FROM records ORDER BY kind,key"),
      put_(*database_, "INSERT OR REPLACE INTO records VALUES(?,?,?)"),
      remove_(*database_, "DELETE FROM records WHERE kind=? AND key=?") {}

Result<std::unique_ptr<RecordStore>> RecordStore::Open(const std::string& path) {
  HZ_RETURN_IF_ERROR(PrepareLogFile(path));
  LogFault fault = LogFault::kNone;
  Result<std::unique_ptr<RecordStore>> store = Try(path, &fault);
  if (fault != LogFault::kDamaged) return store;
  Log(LogLevel::kWarning, kLogInit,
      "{} is damaged, and is set aside as {}.damaged: what was promised and announced before is "
      "forgotten ({})",
      path, path, store.status().message());
  HZ_RETURN_IF_ERROR(SetLogFileAside(path));
  HZ_RETURN_IF_ERROR(PrepareLogFile(path));
  return Try(path, &fault);
}

Result<std::unique_ptr<RecordStore>> RecordStore::Try(const std::string& path, LogFault* fault) {
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<LogDatabase> database, LogDatabase::Open(path));
  std::unique_ptr<RecordStore> store(new RecordStore(std::move(database)));
  std::string problem;
  *fault = store->SetUp(&problem);
  if (*fault == LogFault::kNone) return store;
  if (problem.empty()) problem = store->database_->problem();
  return SystemError("cannot keep records in {}: {}", path, problem);
}

LogFault RecordStore::SetUp(std::string* problem) {
  if (const LogFault fault = database_->SetUp(); fault != LogFault::kNone) return fault;
  const std::optional<int64_t> tables = database_->Integer("SELECT count(*) FROM sqlite_schema");
  if (!tables.has_value()) return LogFault::kDamaged;
  const bool empty = *tables == 0 && database_->Integer("PRAGMA application_id").value_or(1) == 0;
  if (const LogFault fault = empty ? Create() : Check(problem); fault != LogFault::kNone) {
    return fault;
  }
  return database_->Execute(fmt::format("PRAGMA max_page_count={}", kMostRecordPages).c_str());
}

LogFault RecordStore::Create() {
  const std::string settings =
      fmt::format("PRAGMA page_size={};PRAGMA journal_mode=WAL;", kRecordsPageBytes);
  LogFault fault = database_->Execute(settings.c_str());
  if (fault == LogFault::kNone) fault = database_->Begin();
  const std::string table = fmt::format("{};PRAGMA application_id={};PRAGMA user_version={}",
                                        kRecordsTable, kRecordsApplicationId, kRecordsVersion);
  if (fault == LogFault::kNone) fault = database_->Execute(table.c_str());
  if (fault == LogFault::kNone) fault = database_->Commit();
  database_->Rollback();
  return fault;
}

// A file of hostile bytes is taken for damaged: its schema must be ours to the letter.
LogFault RecordStore::Check(std::string* problem) {
  const bool ours =
      database_->Integer("PRAGMA application_id") == kRecordsApplicationId &&
      database_->Integer("PRAGMA user_version") == kRecordsVersion &&
      database_->Integer("SELECT count(*) FROM sqlite_schema") == 1 &&
      database_->Text("SELECT sql FROM sqlite_schema") == kRecordsTable &&
      database_->Text("PRAGMA encoding") == "UTF-8" &&
      database_->Integer("PRAGMA page_count").value_or(kMostRecordPages + 1) <= kMostRecordPages;
  *problem = "it is of another format";
  if (!ours) return LogFault::kDamaged;
  if (!database_->Text("PRAGMA journal_mode=WAL").has_value()) return LogFault::kFull;
  *problem = database_->Text("PRAGMA quick_check(1)").value_or(database_->problem());
  if (*problem != "ok") return LogFault::kDamaged;
  const int64_t records =
      database_->Integer("SELECT count(*) FROM records").value_or(kMostRecords + 1);
  *problem = "it holds more than may be";
  if (records > static_cast<int64_t>(kMostRecords)) return LogFault::kDamaged;
  problem->clear();
  return LogFault::kNone;
}

Status RecordStore::Outcome(LogFault fault) {
  if (fault == LogFault::kNone) return Status::Ok();
  return SystemError("a record cannot be kept: {}", database_->problem());
}

Result<std::vector<Record>> RecordStore::Read() {
  std::vector<Record> records;
  read_.Bind();
  LogFault fault = read_.Step();
  for (; fault == LogFault::kNone && read_.has_row(); fault = read_.Step()) {
    records.push_back(
        {std::string(read_.Text(0)), std::string(read_.Text(1)), std::string(read_.Text(2))});
    if (records.size() > kMostRecords) break;
  }
  read_.Reset();
  HZ_RETURN_IF_ERROR(Outcome(fault));
  return records;
}

Status RecordStore::Put(const Record& record) {
  if (record.kind.size() + record.key.size() > kMostRecordKeyBytes ||
      record.text.size() > kMostRecordBytes) {
    return InvalidArgument("a record of {} bytes is longer than {} bytes", record.text.size(),
                           kMostRecordBytes);
  }
  const LogFault fault = put_.Bind(std::string_view(record.kind), std::string_view(record.key),
                                   std::string_view(record.text))
                             .Run();
  if (database_->journal_pages() >= kRecordsCheckpointPages) database_->Checkpoint();
  return Outcome(fault);
}

Status RecordStore::Remove(const std::string& kind, const std::string& key) {
  return Outcome(remove_.Bind(std::string_view(kind), std::string_view(key)).Run());
}

}  // namespace harmonaize::daemon
