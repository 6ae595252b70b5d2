#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace harmonaize::daemon {

// How the hosts of a communicator come to carry out collectives by other plans, from one sequence
// number on that is the same at all of them, while operations go on:
//
//   - the home proposes, and all hosts make the new plans ready;
//   - each host promises to begin none from some number on before it hears more, some way ahead of
//     where it is;
//   - the home commits from the largest of these numbers on, or calls it off.
//
// No host has begun an operation from there on, so none has begun it by the old plan. An operation
// under way is not disturbed, and a host whose promise is far enough ahead never stops. Whatever
// prevents a host from taking part, or any rank that leaves, calls it off: nothing has changed
// then. One round at a time; messages between two hosts keep their order. A lost host breaks the
// communicator, so every promise is answered or void.
//
// Plain state machines that send nothing themselves; tests/unit/daemon/plans/plan_switch_test.cc
// goes through all orders of events for two to four hosts.

/// A host's side.
class SwitchFollower {
 public:
  /// Takes in the home's proposal of a round, which is to be made ready. Later rounds have larger
  /// numbers.
  void Propose(uint64_t round);
  /// Makes the promise once all is ready for a round, and returns the number to tell the home.
  /// `next` is the first collective that is not begun here, and `ahead` is how many more may begin
  /// meanwhile. Returns nullopt if that round is over.
  std::optional<uint64_t> Promise(uint64_t round, uint64_t next, uint64_t ahead);
  /// Notes that something could not be made ready. Returns false if that round is over, and the
  /// home need not know.
  bool Refuse(uint64_t round);
  /// Takes in the home's word on a round. Returns false if it is not about this round, and to be
  /// ignored.
  bool Settle(uint64_t round);

  uint64_t round() const { return round_; }
  bool under_way() const { return phase_ != Phase::kIdle; }
  /// Returns whether a collective may begin that a proposal would change.
  bool MayBegin(uint64_t sequence) const {
    return phase_ != Phase::kPromised || sequence < promised_;
  }

 private:
  enum class Phase { kIdle, kPreparing, kPromised, kRefused };
  Phase phase_ = Phase::kIdle;
  uint64_t round_ = 0;
  uint64_t promised_ = 0;
};

/// The home's side.
class SwitchLeader {
 public:
  explicit SwitchLeader(int hosts) : promises_(static_cast<size_t>(hosts)) {}

  bool under_way() const { return under_way_; }
  /// Begins a round and returns its number. Requires: no round is under way.
  uint64_t Begin();
  /// The decision to tell all hosts: commit from `from` on, or call it off if that is nullopt.
  struct Settlement {
    uint64_t round = 0;
    std::optional<uint64_t> from;
  };
  /// Takes in a host's promise. Returns nullopt if not all have promised, or the round is over.
  std::optional<Settlement> OnPromise(int host, uint64_t round, uint64_t from);
  /// Takes in a host's refusal, which calls the round off.
  std::optional<Settlement> OnRefusal(uint64_t round);
  /// Calls off the round that is under way, if one is. After a rank has left no other may begin.
  std::optional<Settlement> CallOff();

 private:
  bool under_way_ = false;
  uint64_t round_ = 0;
  std::vector<std::optional<uint64_t>> promises_;  // by host
};

/// Returns the version for a collective, of versions that begin at these numbers, in the order of
/// their rounds: the last one that begins at the collective or before. Requires: the first begins
/// at 0.
size_t VersionFor(const std::vector<uint64_t>& begin_at, uint64_t sequence);

}  // namespace harmonaize::daemon
