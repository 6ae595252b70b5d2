#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/outcome.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// At the home of a communicator: puts together what its hosts say about collectives that take long
/// or went wrong, finds out whether the ranks agree and who is late, and decides how such an
/// operation ends. A plain state machine: it sends nothing itself.
class OutcomeArbiter {
 public:
  /// `gone(host)`: all ranks of the host have left, so it has done whatever it took part in.
  OutcomeArbiter(int hosts, std::function<bool(int host)> gone)
      : hosts_(hosts), gone_(std::move(gone)) {}

  struct Outcome {
    /// Hosts that are to be asked where they stand.
    std::vector<int> ask;
    /// How the operation ends at all hosts; ok: not decided.
    Status verdict;
    /// How the communicator ends; ok: it goes on.
    Status breaks;
  };
  Outcome Take(int host, const ProgressMessage& progress, uint64_t now_ns);

  /// The ranks are known to disagree about a collective (StartConfirmations). So it fails when all
  /// hosts have been heard, also where none remembers what its ranks asked for.
  void NoteDisagreement(uint64_t sequence);

  /// Collectives from there on end at all hosts without a verdict, since a rank has left: they are
  /// forgotten, and nothing about them is taken in any more.
  void EndFrom(uint64_t sequence);
  /// To be called after a host has become gone: what can be decided now.
  std::vector<std::pair<uint64_t, Outcome>> LookAgain();

  /// Operations that were heard of, and are neither decided nor known to be done at all hosts.
  size_t open() const;

  struct LateOperation {
    uint64_t sequence;
    std::string notice;        ///< "": not yet, until those asked have answered.
    std::vector<int> missing;  ///< The ranks.
    std::vector<int> ask;      ///< Hosts of which it would be good to hear again.
  };
  /// Operations for which ranks of some host have waited for longer than this; each is told again
  /// when it has waited twice as long. Before it is told the hosts are asked anew, so that nobody
  /// is named who has come meanwhile: hence to be called again soon.
  std::vector<LateOperation> Late(uint64_t now_ns, uint64_t late_after_ns);

 private:
  struct Case {
    uint64_t begun_ns = 0;
    uint64_t next_report_ns = 0;
    bool asked = false;
    bool asked_who_is_late = false;
    bool decided = false;
    bool known_to_disagree = false;
    /// A transport has failed, and those who had not failed by then were asked anew.
    bool failing = false;
    std::map<int, ProgressMessage> by_host;
  };

  Outcome Judge(uint64_t sequence, Case* one) const;
  Status Disagreement(uint64_t sequence, const Case& one) const;
  Status Failure(const Case& one) const;
  bool All(const Case& one, const std::function<bool(HostProgress)>& holds) const;

  const int hosts_;
  const std::function<bool(int)> gone_;
  uint64_t end_ = UINT64_MAX;
  std::map<uint64_t, Case> cases_;  // by sequence
};

}  // namespace harmonaize::daemon
