#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daemon/cluster/messages/diagnosis.h"
#include "daemon/diagnosis/hang_judge.h"

namespace harmonaize::daemon {

/// What the hosts of a communicator have said of one operation that waits, as its home keeps it. A
/// state machine that sends nothing, and is given the time. Thread: engine.
class SharedWait {
 public:
  /// Takes in what a host says, the home's own included.
  void Note(int host, StandingMessage standing, uint64_t now_ns);

  /// Returns whether ranks of some host wait in it, by a word of another host that is no older than
  /// `kept_ns`, or by one of the home itself (`self`) at this time.
  bool AnyWaits(int self, uint64_t now_ns, uint64_t kept_ns) const;
  /// Returns whether a host, from which a word is expected from now on, has said nothing for
  /// `period_ns`, and was not asked for as long.
  bool IsToBeAsked(int host, uint64_t now_ns, uint64_t period_ns);
  void NoteAsked(int host, uint64_t now_ns);
  /// Returns whether the host has spoken at this time.
  bool HasSpokenAt(int host, uint64_t now_ns) const;

  /// Adds what the hosts have said to what is known of the operation. `is_silent` tells whether a
  /// host that has not answered since a time (0: it has) is unreachable. Returns the hosts that
  /// are: what they said is left out. Ranks from `ranks` on do not exist.
  using IsSilent = std::function<bool(int host, uint64_t unanswered_ns)>;
  std::vector<int> AddTo(int ranks, const IsSilent& is_silent, WaitFact* fact) const;

 private:
  struct Heard {
    std::optional<StandingMessage> standing = {};
    uint64_t heard_ns = 0;
    uint64_t asked_ns = 0;       // 0: not asked
    uint64_t unanswered_ns = 0;  // since when a question is open; 0: none is
  };
  static void Add(const Heard& heard, int ranks, WaitFact* fact);

  std::map<int, Heard> by_host_;
};

}  // namespace harmonaize::daemon
