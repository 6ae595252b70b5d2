#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/events/event_log_database.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Something that outlives the daemon: a short text under a kind and a key.
struct Record {
  std::string kind;
  std::string key;
  std::string text;
  auto operator<=>(const Record&) const = default;
};

/// Most records that a file is believed to hold. It is above what the daemon keeps by its own
/// limits (PromiseBook, Announcements), so a file with more is not one of ours.
inline constexpr size_t kMostRecords = 8192;
/// Longest kind and key together, and longest text, in bytes. A text is one JSON object with a
/// tenant's name and some ranks.
inline constexpr size_t kMostRecordKeyBytes = 512;
inline constexpr size_t kMostRecordBytes = 8 << 10;

/// Records in one SQLite file of mode 0600. What Put and Remove have done survives the end of the
/// process, however it ends, but not always that of the machine. Thread: one at a time.
class RecordStore {
 public:
  /// Opens or makes the file. A file that is damaged, or of another format, is set aside as
  /// PATH.damaged, which the log says, and a new one begun. Errors: kSystemError where the folder
  /// cannot be used or another process has the file.
  static Result<std::unique_ptr<RecordStore>> Open(const std::string& path);

  /// Reads all records, by kind and key. Errors: kSystemError.
  Result<std::vector<Record>> Read();
  /// Adds the record, or replaces the one of its kind and key. Errors: kInvalidArgument for one
  /// that is too long; kSystemError if it cannot be written.
  Status Put(const Record& record);
  /// Removes the record, if there is one. Errors: kSystemError.
  Status Remove(const std::string& kind, const std::string& key);

 private:
  explicit RecordStore(std::unique_ptr<LogDatabase> database);
  static Result<std::unique_ptr<RecordStore>> Try(const std::string& path, LogFault* fault);
  [[nodiscard]] LogFault SetUp(std::string* problem);
  [[nodiscard]] LogFault Create();
  [[nodiscard]] LogFault Check(std::string* problem);
  Status Outcome(LogFault fault);

  const std::unique_ptr<LogDatabase> database_;
  LogStatement read_;
  LogStatement put_;
  LogStatement remove_;
};

}  // namespace harmonaize::daemon
