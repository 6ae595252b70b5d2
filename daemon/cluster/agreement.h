#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// At the home of a communicator: puts together what its hosts say about collectives that take long
/// or went wrong, finds out whether the ranks agree and who is late, and decides how such an
/// operation ends. A plain state machine: it sends nothing itself.
class Agreement {
 public:
  /// `gone(host)`: all ranks of the host have left, so it has done whatever it took part in.
  Agreement(int hosts, std::function<bool(int host)> gone)
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

  struct LateOperation {
    uint64_t sequence;
    std::string notice;
    std::vector<int> ask;  ///< Hosts of which it would be good to hear again.
  };
  /// Operations for which ranks of some host have waited for longer than this; each is told again
  /// when it has waited twice as long.
  std::vector<LateOperation> Late(uint64_t now_ns, uint64_t late_after_ns);

 private:
  struct Case {
    uint64_t begun_ns = 0;
    uint64_t next_report_ns = 0;
    bool asked = false;
    bool decided = false;
    std::map<int, ProgressMessage> by_host;
  };

  Status Disagreement(uint64_t sequence, const Case& one) const;
  Status Failure(const Case& one) const;
  bool AllPosted(const Case& one) const;
  bool AllDone(const Case& one) const;

  const int hosts_;
  const std::function<bool(int)> gone_;
  std::map<uint64_t, Case> cases_;  // by sequence
};

}  // namespace harmonaize::daemon
