#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace harmonaize::daemon {

/// Why a statement failed, by what can be done about it.
enum class LogFault : uint8_t {
  kNone,
  kFull,     ///< There is no room, or a read or write failed: giving up old events may help.
  kDamaged,  ///< The file is not what was written: it has to be replaced.
  kLocked,   ///< Another process or log has the file.
};

/// A connection to one SQLite file that holds a log. It is set up so that a file of hostile bytes
/// can make statements fail, and no more: nothing of its schema is executed, and each statement's
/// work is bounded. The file belongs to this connection alone while it is open, so that SQLite maps
/// no shared memory beside it, whose pages a full disk could take away. Thread: one at a time.
class LogDatabase {
 public:
  /// Opens the file, which has to exist, without reading it; "" stands for memory.
  static Result<std::unique_ptr<LogDatabase>> Open(const std::string& path);
  /// Reads the file for the first time, and sets the connection up. To be called before all else.
  [[nodiscard]] LogFault SetUp();
  ~LogDatabase();
  LogDatabase(const LogDatabase&) = delete;
  LogDatabase& operator=(const LogDatabase&) = delete;

  /// Carries out a statement that returns nothing of interest.
  [[nodiscard]] LogFault Execute(const char* sql);
  /// Returns the first column of the first row; nullopt if there is none, or the statement failed.
  std::optional<int64_t> Integer(const char* sql);
  std::optional<std::string> Text(const char* sql);

  /// Begins a transaction; a transaction that is open already goes back first.
  [[nodiscard]] LogFault Begin();
  [[nodiscard]] LogFault Commit();
  /// Ends a transaction, if one is open, as if it had never begun.
  void Rollback();

  /// Moves what the journal holds to the file, so that it begins anew. Returns false if that
  /// failed, as it does where the file cannot grow.
  bool Checkpoint();
  /// Pages of the journal that have not been moved to the file.
  int journal_pages() const { return journal_pages_; }

  /// What SQLite has said of the last failure.
  const std::string& problem() const { return problem_; }

 private:
  friend class LogStatement;
  explicit LogDatabase(sqlite3* connection) : connection_(connection) {}
  void BoundWork();
  /// Returns what a code means, and keeps what SQLite says of it.
  LogFault Judge(int code);

  sqlite3* const connection_;
  int journal_pages_ = 0;
  /// Rounds of work of the statement that is being carried out; see kMostRounds.
  int rounds_ = 0;
  std::string problem_;
};

/// A statement of a database, which is prepared when it is first used. Thread: one at a time.
class LogStatement {
 public:
  /// Both have to outlive the statement.
  LogStatement(LogDatabase& database, const char* sql) : database_(database), sql_(sql) {}
  ~LogStatement();
  LogStatement(const LogStatement&) = delete;
  LogStatement& operator=(const LogStatement&) = delete;

  /// Begins anew with these values for the statement's parameters, in their order. A text has to
  /// stay as it is until the statement is bound again or reset.
  template <typename... Values>
  LogStatement& Bind(const Values&... values) {
    Reset();
    [[maybe_unused]] int index = 0;
    (BindValue(++index, values), ...);
    return *this;
  }
  /// Goes to the next row, if there is one: has_row says so.
  [[nodiscard]] LogFault Step();
  /// Carries out a statement without rows.
  [[nodiscard]] LogFault Run();
  /// Lets go of what the statement holds of the file.
  void Reset();

  bool has_row() const { return has_row_; }
  int64_t Integer(int column) const;
  std::optional<int64_t> OptionalInteger(int column) const;
  /// Valid until the next step.
  std::string_view Text(int column) const;
  bool IsNull(int column) const;

 private:
  void BindValue(int index, int64_t value);
  void BindValue(int index, std::string_view value);
  void BindValue(int index, std::optional<int64_t> value);
  bool Prepare();

  LogDatabase& database_;
  const char* const sql_;
  sqlite3_stmt* statement_ = nullptr;
  int failed_ = 0;  ///< SQLite's code of a failure to prepare or bind; 0: none.
  bool has_row_ = false;
};

}  // namespace harmonaize::daemon
