#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/diagnosis.h"
#include "daemon/diagnosis/process_table.h"
#include "daemon/diagnosis/verdict.h"

namespace harmonaize::daemon {

/// A rank that an operation waits for, and what is known of it.
struct AwaitedFact {
  int rank = 0;
  Awaited awaited = Awaited::kCall;
  uint64_t process = 0;  ///< Tells processes apart; 0: not known.
  /// The process has no other rank in the communicator. Only then its waiting elsewhere tells that
  /// this rank waits.
  bool alone = true;
  ProcessTable::Known does = {};
  bool unreachable = false;           ///< Its daemon does not answer.
  std::vector<HangRoot> behind = {};  ///< Its daemon says that these keep it waiting elsewhere.
};

/// An operation that waits, and what is known of the ranks it waits for.
struct WaitFact {
  uint64_t communicator = 0;
  std::string label = {};
  OperationKey key = {};
  std::string operation = {};
  uint64_t since_ns = 0;
  /// Since when it has not got on; since_ns for one that has not begun.
  uint64_t still_since_ns = 0;
  bool all_posted = false;
  bool begun = true;           ///< False: it waits for its turn, or for a plan.
  uint64_t usual_ns = 0;       ///< What it usually takes; 0: not known.
  uint64_t late_after_ns = 0;  ///< Ranks of this communicator count as late after this.
  /// What its job has said instead of Times::late_after_ns; 0: nothing.
  uint64_t asked_late_after_ns = 0;
  std::vector<AwaitedFact> awaited = {};
  std::vector<uint64_t> waiting = {};  ///< The processes that wait in it.
  std::vector<int> senders = {};       ///< The ranks whose data it waits for.
  /// Another host decides. Its roots, if it has told any; the operation then gets no verdict here.
  bool decided_elsewhere = false;
  std::vector<HangRoot> told = {};
};

/// Finds the operations in which a process waits. Requires: the facts stay where they are.
class WaitIndex {
 public:
  explicit WaitIndex(const std::vector<WaitFact>& facts) {
    for (const WaitFact& fact : facts) {
      for (const uint64_t process : fact.waiting) by_process_[process].push_back(&fact);
    }
  }
  const std::vector<const WaitFact*>& Of(uint64_t process) const {
    static const std::vector<const WaitFact*> nothing;
    const auto found = by_process_.find(process);
    return found == by_process_.end() ? nothing : found->second;
  }

 private:
  std::unordered_map<uint64_t, std::vector<const WaitFact*>> by_process_;
};

/// Finds out which rank keeps operations from ending, and why. It follows causes: a rank that waits
/// in another operation is no root, but those that keep that one waiting are. A state machine over
/// facts that are given together with the time; it looks at nothing itself. Thread: any one.
class HangJudge {
 public:
  struct Times {
    uint64_t late_after_ns = 0;  ///< Nobody is called late before this.
    /// Who is stopped, killed or unreachable is told of after this.
    uint64_t early_ns = 0;
    /// Another verdict of an operation must hold for this long before it replaces one.
    uint64_t settle_ns = 0;
  };
  /// Returns the times for ranks.late_after_seconds.
  static Times TimesFor(uint64_t late_after_ns);

  explicit HangJudge(const Times& times) : times_(times) {}

  enum class What { kRaised, kChanged, kCleared };
  struct Told {
    What what = What::kRaised;
    Verdict verdict = {};
    Verdict before = {};  ///< Of kChanged.
  };
  /// Takes in all operations that wait. Returns what has changed in the verdicts.
  std::vector<Told> Update(const std::vector<WaitFact>& waits, uint64_t now_ns);
  /// Sets a verdict that needs no further facts (kDead, kMismatch, or one that another host has
  /// told). It stays until Clear, or until an operation of the communicator is judged anew.
  std::vector<Told> Set(Verdict verdict, uint64_t now_ns);
  /// Keeps a communicator's verdict, if it is a fault, as if Set had set it: the communicator is
  /// broken, and nothing more is heard of its operations.
  void Keep(uint64_t communicator);
  /// Ends the communicator's verdict, if there is one. `got_on`: its operation has got on.
  std::vector<Told> Clear(uint64_t communicator, bool got_on, uint64_t now_ns);

  /// Returns whether there are verdicts that go by facts: Update is then to be called regularly.
  bool goes_by_facts() const;
  /// The verdict of a communicator; nullptr if it has none.
  const Verdict* Of(uint64_t communicator) const;
  std::vector<const Verdict*> all() const;

  /// A root, and whether it is time to tell of it.
  struct Cause {
    HangRoot root = {};
    bool settled = true;  ///< What its process does was seen for a while.
  };
  /// Returns the roots of an operation as they seem now, whether or not it is time to tell.
  std::vector<HangRoot> RootsOf(const WaitFact& wait, const WaitIndex& waits) const;

 private:
  /// A verdict that has been told, and one that may replace it.
  struct Case {
    Verdict verdict;
    bool set = false;  // by Set: it needs no facts
    std::optional<Verdict> next = {};
    bool changing = false;
    uint64_t changing_since_ns = 0;
  };
  using Visited = std::set<const WaitFact*>;

  std::vector<Cause> CausesOf(const WaitFact& wait, const WaitIndex& waits, Visited* visited) const;
  std::vector<Cause> CausesBy(const WaitFact& wait, const AwaitedFact& rank, const WaitIndex& waits,
                              Visited* visited) const;
  uint64_t LeastLateAfter(const WaitFact& wait) const;
  bool IsRipe(const WaitFact& wait, const Cause& cause, uint64_t now_ns) const;
  std::optional<Verdict> Judge(const WaitFact& wait, const WaitIndex& waits, uint64_t now_ns) const;
  std::optional<Verdict> SlowTransfer(const WaitFact& wait, uint64_t now_ns) const;
  void Follow(uint64_t communicator, std::optional<Verdict> seen, bool still_waits, uint64_t now_ns,
              std::vector<Told>* told);
  void Change(Case* one, Verdict verdict, uint64_t now_ns, std::vector<Told>* told);
  static Told End(Verdict verdict, bool got_on, uint64_t now_ns);

  const Times times_;
  std::map<uint64_t, Case> cases_;  // by communicator
};

}  // namespace harmonaize::daemon
