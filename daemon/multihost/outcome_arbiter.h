#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/outcome.h"
#include "daemon/tenant/mismatch.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// At the home of a communicator: puts together what its hosts say about collectives that take long
/// or went wrong, finds out whether the ranks agree and who is late, and decides how such an
/// operation ends. A plain state machine: it sends nothing itself.
class OutcomeArbiter {
 public:
  /// `gone(host)` tells whether all ranks of the host have left; it has then done whatever it took
  /// part in.
  OutcomeArbiter(int hosts, std::function<bool(int host)> gone)
      : hosts_(hosts), gone_(std::move(gone)) {}

  struct Outcome {
    /// Hosts that are to be asked where they stand.
    std::vector<int> ask;
    /// How the operation ends at all hosts; ok: not decided.
    Status verdict;
    /// Where the ranks disagree: what they asked for.
    std::optional<Mismatch> mismatch;
    /// How the communicator ends; ok: it goes on.
    Status breaks;
  };
  /// Takes in what a host says of a collective.
  Outcome Take(int host, const ProgressMessage& progress, uint64_t now_ns);

  /// Notes that the ranks disagree about a collective (StartConfirmations). It then fails when all
  /// hosts have been heard, even if none remembers what its ranks asked for.
  void NoteDisagreement(uint64_t sequence);

  /// Forgets the collectives from this one on, and takes in nothing about them any more: a rank has
  /// left, or the communicator is broken, and they end at all hosts without a verdict. Returns the
  /// disagreements among them that still waited for the word of other hosts.
  std::vector<Mismatch> EndFrom(uint64_t sequence);
  struct LookedAt {
    uint64_t sequence = 0;
    Outcome outcome;
  };
  /// Looks again at the first collective from `from` on that was heard of, after a host has become
  /// gone. Returns what can be decided of it now; none if there is no such collective.
  std::optional<LookedAt> LookAgain(uint64_t from, uint64_t now_ns);

  /// Time, in nanoseconds, for which ranks that disagree wait for the word of all hosts before they
  /// are told. What most ranks ask for tells who is likely wrong, so a verdict by the first two
  /// hosts alone would name innocent ranks. A host answers in a round trip, and its ranks mostly
  /// come within milliseconds of the others. Looks are half as long apart, so an error is delayed
  /// by less than 100 ms.
  static constexpr uint64_t kSettleNanoseconds = 50'000'000;
  /// Looks at the collectives whose ranks disagree and that wait for other hosts: asks again those
  /// hosts of which no rank had come, and decides what has waited for kSettleNanoseconds. To be
  /// called twice in this time while `settles()`.
  std::vector<LookedAt> Settle(uint64_t now_ns);
  /// Returns whether ranks disagree about some collective that is not decided.
  bool settles() const;

  /// Number of operations that were heard of, and are neither decided nor known to be done at all
  /// hosts.
  size_t open() const;

  struct LateOperation {
    uint64_t sequence;
    std::string notice;        ///< "": not yet, until the asked hosts have answered.
    std::vector<int> missing;  ///< The ranks that are late.
    std::vector<int> ask;      ///< Hosts that are to be asked again.
  };
  /// Returns the operations for which ranks of some host have waited for longer than
  /// `late_after_ns`. Each is told again when it has waited twice as long. Before it is told the
  /// hosts are asked anew, so that no rank is named that has come meanwhile: hence this is to be
  /// called again soon.
  std::vector<LateOperation> Late(uint64_t now_ns, uint64_t late_after_ns);

 private:
  struct Case {
    uint64_t begun_ns = 0;
    uint64_t next_report_ns = 0;
    bool asked = false;
    bool asked_who_is_late = false;
    bool decided = false;
    bool known_to_disagree = false;
    /// Time since which ranks are known to disagree, and other hosts are waited for; 0: they are
    /// not.
    uint64_t settles_since_ns = 0;
    /// A transport has failed, and the hosts that were still running by then were asked anew.
    bool failing = false;
    std::map<int, ProgressMessage> by_host;
  };

  Outcome Judge(uint64_t sequence, Case* one, uint64_t now_ns) const;
  bool WaitsForHosts(Case* one, uint64_t now_ns) const;
  std::optional<Mismatch> FindMismatch(uint64_t sequence, const Case& one) const;
  Status Failure(const Case& one) const;
  bool All(const Case& one, const std::function<bool(const ProgressMessage&)>& holds) const;
  bool AllAre(const Case& one, HostProgress state) const;

  const int hosts_;
  const std::function<bool(int)> gone_;
  uint64_t end_ = UINT64_MAX;
  std::map<uint64_t, Case> cases_;  // by sequence
};

}  // namespace harmonaize::daemon
