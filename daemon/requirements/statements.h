#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/requirements/requirements.h"

namespace harmonaize::daemon {

/// Orders the statements about one job, which are made at any of its hosts: a statement has a
/// higher number than all that its daemon knew of.
struct StatementStamp {
  uint64_t number = 0;  ///< From 1 to kMostStatementNumber; 0 stands for no statement.
  uint64_t unique = 0;  ///< Random; decides between statements that were made at the same time.

  auto operator<=>(const StatementStamp&) const = default;
};

/// Reads a statement of a tenant, with its numbers as RequirementsText writes them: so all hosts
/// have the same. Takes up to milliseconds. Errors: those of ParseRequirements.
Result<Requirements> ReadStatement(std::string_view text, const std::string& name);

/// What has been said of one job. A later statement replaces an earlier one key by key, and its
/// overrides and launches, if it has any, replace all earlier ones. Statements may come in any
/// order, and several times: all hosts that know the same ones know the same requirements. (The
/// last writer wins, by the stamps of Lamport, "Time, clocks, and the ordering of events in a
/// distributed system", 1978.)
class Statements {
 public:
  /// Takes in a statement. Returns whether anything follows from it that was not known.
  bool Take(const Requirements& statement, const StatementStamp& stamp);
  /// Takes back all that was said up to this stamp. Returns likewise.
  bool Forget(const StatementStamp& stamp);

  /// Returns the requirements that hold.
  Requirements All() const;
  /// Returns what is left of each statement, by its stamp.
  std::map<StatementStamp, Requirements> ByStamp() const;
  /// The last stamp up to which all was taken back.
  const StatementStamp& forgotten() const { return forgotten_; }
  /// Returns the stamp of a statement that is made now. Its number stays at kMostStatementNumber
  /// once a daemon has sent that, since all others refuse what is above.
  StatementStamp Next() const;
  /// Returns a number that is the same at hosts that know the same: of what was said, which
  /// statement it is of, and up to which one all was taken back.
  uint64_t Digest() const;
  /// Returns whether there is nothing that another host could have to know.
  bool empty() const { return newest_.number == 0; }

 private:
  struct Value {
    StatementStamp stamp;
    RequirementValue value;
  };
  struct List {
    StatementStamp stamp;
    std::vector<RequirementTable> tables;
  };

  static bool TakeList(const std::vector<RequirementTable>& tables, const StatementStamp& stamp,
                       List* list);
  void ForgetList(List* list) const;

  std::map<std::string, Value, std::less<>> values_;
  List overrides_;
  List launches_;
  StatementStamp forgotten_;
  StatementStamp newest_;
};

}  // namespace harmonaize::daemon
