#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/outcome.h"

namespace harmonaize::daemon {

// A host may be done with its part of a rooted collective before all others have begun theirs: a
// root of a broadcast is as soon as its data is on its way. So ranks that do not agree might all
// end well. Hence each host tells the home what it has begun, many at a time, and goes on; it stops
// when it is too far ahead of the home's word that all have begun the same. (Of the other
// collectives no part can be done before all hosts have sent something.)

/// At each host of a communicator: what it has begun without knowing that all have begun the same.
class UnconfirmedStarts {
 public:
  /// In the order of their sequence numbers.
  void Begin(const BegunCollective& begun);
  /// All up to this one, itself included, are known to be begun alike.
  void Agree(uint64_t sequence);
  /// It will be settled otherwise.
  void Clear();

  /// Whether one that is done here may be called done. Else it waits for the home's word.
  bool may_end() const;
  /// Whether the home should be told now, and not when there is time: when there is much, or when
  /// what is begun now comes long after it.
  bool due(uint64_t sequence) const;
  bool anything_to_tell() const { return !untold_.empty(); }
  /// What the home has not been told.
  std::vector<BegunCollective> TakeUntold() { return std::exchange(untold_, {}); }

 private:
  std::deque<uint64_t> open_;
  std::vector<BegunCollective> untold_;
};

/// At the home of a communicator: who has begun which collective.
class StartConfirmations {
 public:
  explicit StartConfirmations(int hosts) : hosts_(hosts), listeners_(static_cast<size_t>(hosts)) {}

  enum class Outcome { kWaiting, kAll, kDisagree };
  /// kAll and kDisagree come once for a collective.
  Outcome Take(int host, const BegunCollective& begun);
  /// The host wants to know at once when all up to this one, itself included, are agreed on.
  void Ask(int host, uint64_t sequence) { listeners_[static_cast<size_t>(host)].asks = sequence; }
  /// Hosts that are to be told how far all agree: those that have asked, and all when it is much.
  std::vector<int> TakeListeners();
  /// The last that all are known to have begun alike; 0 also if there is none.
  uint64_t agreed() const { return agreed_end_ > 0 ? agreed_end_ - 1 : 0; }

  /// It ends otherwise.
  void Forget(uint64_t sequence) { begun_.erase(sequence); }
  /// All from there on do.
  void EndFrom(uint64_t sequence) { begun_.erase(begun_.lower_bound(sequence), begun_.end()); }

 private:
  struct Begun {
    bool disagree = false;
    std::map<int, uint32_t> digests;  // by host
  };
  const int hosts_;
  std::map<uint64_t, Begun> begun_;  // by sequence
  uint64_t agreed_end_ = 0;          // after the last one that all have begun alike
  struct Listener {
    uint64_t asks = UINT64_MAX;
    uint64_t told = 0;  // of agreed_end_
  };
  std::vector<Listener> listeners_;  // by host
};

}  // namespace harmonaize::daemon
