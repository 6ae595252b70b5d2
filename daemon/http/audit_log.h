#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/http/http_exchange.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The file in the state directory that says what operators have changed.
inline constexpr char kAuditFile[] = "audit.log";

/// Longest path of an entry, in bytes: the longest one that exists names a host of 253 bytes at
/// most and an id. A longer path was made to fill the log.
inline constexpr size_t kMostAuditPathBytes = 256;

/// A request that an operator made to change something, and how it was answered.
struct AuditEntry {
  double unix_seconds = 0;
  std::string who;  ///< HttpCaller::name.
  std::string method;
  /// The path without the query. The log keeps kMostAuditPathBytes of it, with "..." behind them
  /// where it was longer.
  std::string path;
  int status = 0;
  AuditNote note = {};
};

/// Bounds of the audit log.
struct AuditLimits {
  int64_t file_bytes = int64_t{8} << 20;  ///< A longer file is set aside as audit.log.1.
  int kept_files = 4;                     ///< Files that are set aside, the newest as audit.log.1.
  size_t waiting = 1024;                  ///< Entries that wait for the disk.
  /// Least time between two lines that count refusals: callers who may change nothing can have the
  /// log grow by 1440 short lines a day.
  std::chrono::milliseconds refusals_every{60'000};
};

/// Keeps a line of JSON for each entry in a file of mode 0600, on a thread of its own. Entries that
/// find no place to wait, or cannot be written, are counted, and a line says later how many are
/// missing. Refusals of callers who may change nothing have no lines of their own, so that nobody
/// can push out what operators did: a line says now and then how many there were.
class AuditLog {
 public:
  /// Opens or makes the file, and starts the thread. Errors name the file.
  static Result<std::unique_ptr<AuditLog>> Start(std::string folder, AuditLimits limits);
  /// Writes what waits, for as long as the disk takes.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Adds an entry, and waits for nothing. Thread: any.
  void Add(AuditEntry entry);
  /// Counts a request to change something by a caller who may not, and waits for nothing. `who`:
  /// HttpCaller::name. Thread: any.
  void CountRefusal(const std::string& who);
  /// Waits until what was added has been written, or was lost. Thread: any.
  void Flush();

 private:
  AuditLog(std::string folder, AuditLimits limits);

  using Time = std::chrono::steady_clock::time_point;
  /// What one turn of the thread writes.
  struct Batch {
    std::deque<AuditEntry> entries;
    uint64_t missing = 0;
    uint64_t refusals = 0;
    std::string last_refused;
  };

  void Run();
  void AwaitWork(std::unique_lock<std::mutex>* lock);
  bool RefusalsAreDue() const;
  Batch TakeBatch();
  Status WriteLines(const Batch& batch);
  Status OpenFile();
  Status Rotate();
  void Tell(const Status& written);

  const std::string folder_;
  const std::string path_;
  const AuditLimits limits_;
  // Thread: the log's own, once it runs.
  FileDescriptor file_;
  int64_t file_bytes_ = 0;
  bool failing_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<AuditEntry> waiting_;  // guarded by mutex_
  uint64_t missing_ = 0;            // guarded by mutex_
  uint64_t refusals_ = 0;           // guarded by mutex_: since the last line that counts them
  std::string last_refused_;        // guarded by mutex_
  Time refusals_due_{};             // guarded by mutex_: when the next line may count them
  bool writing_ = false;            // guarded by mutex_
  bool stopping_ = false;           // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::daemon
