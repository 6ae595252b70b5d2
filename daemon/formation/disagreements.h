#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "daemon/formation/formation.h"
#include "daemon/quota/holdings.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Formations that failed because their ranks disagreed, remembered for the ranks that come later.
/// Thread: engine.
class Disagreements {
 public:
  /// Each disagreement is remembered for `lasts_ns` nanoseconds.
  explicit Disagreements(uint64_t lasts_ns) : lasts_ns_(lasts_ns) {}

  /// Remembers why the formation failed, and which ranks know. Where the account cannot pay for it,
  /// nothing is remembered: ranks that come later wait until their formation ends by its time.
  void Remember(const FormationKey& key, const Status& why, std::set<int> told, Account& account);
  /// Returns the disagreement to a rank that does not know of it. A rank that knows may begin anew,
  /// unless its id is spent.
  Status Check(const FormationKey& key, int rank);
  /// Forgets those that were remembered long enough.
  void ForgetOld(uint64_t now_ns);
  bool empty() const { return failed_.empty(); }

 private:
  struct Failed {
    Status why;
    std::set<int> told;  ///< Ranks that know.
    uint64_t ends_ns = 0;
    Holding place;   ///< A unique id's.
    Holding memory;  ///< Of `told`.
  };

  const uint64_t lasts_ns_;
  std::map<FormationKey, Failed> failed_;
};

}  // namespace harmonaize::daemon
