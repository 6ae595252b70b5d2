#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/outcome.h"

namespace harmonaize::daemon {

// A host may be done with its part of a rooted collective before all others have begun theirs: the
// root of a broadcast is done as soon as its data is on its way. So ranks that do not agree might
// all end well. Hence each host tells the home what it has begun, many at a time, and goes on; it
// stops when it is too far ahead of the home's word that all have begun the same. (Of the other
// collectives no part can be done before all hosts have sent something.)

/// At each host of a communicator: the collectives that it has begun without knowing that all hosts
/// have begun the same.
class UnconfirmedStarts {
 public:
  /// Adds a collective. Requires: they are added in the order of their sequence numbers.
  void Begin(const BegunCollective& begun);
  /// Notes that all hosts have begun the same up to this collective, itself included.
  void Agree(uint64_t sequence);
  /// Forgets all collectives, which are settled otherwise.
  void Clear();

  /// Returns whether a collective that is done here may be called done. If not, it waits for the
  /// home's word.
  bool may_end() const;
  /// Returns whether the home should be told now, and not when there is time: the collective that
  /// begins now comes long after one that the home has not been told of.
  bool due(uint64_t sequence) const;
  bool anything_to_tell() const { return !untold_.empty(); }
  /// Removes and returns what the home has not been told.
  std::vector<BegunCollective> TakeUntold() { return std::exchange(untold_, {}); }

 private:
  std::deque<uint64_t> open_;
  std::vector<BegunCollective> untold_;
};

/// At the home of a communicator: which hosts have begun which collective.
class StartConfirmations {
 public:
  explicit StartConfirmations(int hosts) : hosts_(hosts), listeners_(static_cast<size_t>(hosts)) {}

  enum class Outcome { kWaiting, kAll, kDisagree };
  /// Takes in that a host has begun a collective. kAll and kDisagree come once for a collective.
  Outcome Take(int host, const BegunCollective& begun);
  /// Notes that a host wants to know at once when all agree up to this collective, itself included.
  void Ask(int host, uint64_t sequence) { listeners_[static_cast<size_t>(host)].asks = sequence; }
  /// Returns the hosts that are to be told how far all agree: those whose question is answered now,
  /// and those that have not been told of many collectives.
  std::vector<int> TakeListeners();
  /// The last collective that all hosts are known to have begun alike; 0 also if there is none.
  uint64_t agreed() const { return agreed_end_ > 0 ? agreed_end_ - 1 : 0; }

  /// Forgets a collective, which ends otherwise.
  void Forget(uint64_t sequence) { begun_.erase(sequence); }
  /// Forgets the collectives from this one on, which end otherwise.
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
