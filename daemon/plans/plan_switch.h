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
  /// The home proposes round `round`, later ones with larger numbers: to be made ready.
  void Propose(uint64_t round);
  /// All is ready for that round: the number to tell the home. `next` is the first collective that
  /// is not begun here, and `ahead` how many more may begin meanwhile. None: that round is over.
  std::optional<uint64_t> Promise(uint64_t round, uint64_t next, uint64_t ahead);
  /// Something could not be made ready. False: that round is over, and nobody needs to know.
  bool Refuse(uint64_t round);
  /// The home's word on a round; false: not on this one, to be ignored.
  bool Settle(uint64_t round);

  uint64_t round() const { return round_; }
  bool under_way() const { return phase_ != Phase::kIdle; }
  /// Whether a collective may begin that a proposal would change.
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
  /// Begins a round, its number. None must be under way.
  uint64_t Begin();
  /// What all hosts are to be told: commit from there on, or call it off where there is no number.
  struct Settlement {
    uint64_t round = 0;
    std::optional<uint64_t> from;
  };
  /// A host promises. None: not all have, or the round is over.
  std::optional<Settlement> OnPromise(int host, uint64_t round, uint64_t from);
  /// A host refuses.
  std::optional<Settlement> OnRefusal(uint64_t round);
  /// A rank has left: a round that is under way is called off. There is to be no other.
  std::optional<Settlement> OnRankLeft();

 private:
  bool under_way_ = false;
  uint64_t round_ = 0;
  std::vector<std::optional<uint64_t>> promises_;  // by host
};

/// Of versions that begin at these numbers, in the order of their rounds, the one for a collective:
/// the last of those that begin at it or before. The first begins at 0.
size_t VersionFor(const std::vector<uint64_t>& begin_at, uint64_t sequence);

}  // namespace harmonaize::daemon
