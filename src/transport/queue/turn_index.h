#pragma once

#include <cstdint>

namespace harmonaize::transport {

class TurnIndex;

/// What a flow shows to get the next turn (TurnIndex).
struct TurnClaim {
  uint64_t number = 0;  ///< Number of the flow: of flows that are alike the lowest goes first.
  double left = 0;      ///< Bytes that it has left of its operation, by its weight; 0: not known.
  double start = 0;     ///< What it has had, by its weight: the flow that has had least goes first.
  /// What the flow that has had least must have had, so that this one may go before it. `start`, if
  /// `left` is not known: then it goes before nobody.
  double leads_from = 0;

  friend bool operator==(const TurnClaim&, const TurnClaim&) = default;
};

/// The place of a flow in at most one TurnIndex, which then needs no memory of its own. Never moves
/// in memory. Requires: it is in no index when it ends, or the index ends as well.
class TurnPlace {
 public:
  TurnPlace();
  TurnPlace(const TurnPlace&) = delete;
  TurnPlace& operator=(const TurnPlace&) = delete;

  /// Returns the claim that the index goes by, or went by last.
  const TurnClaim& claim() const { return claim_; }

 private:
  friend class TurnIndex;
  bool IsBefore(const TurnPlace& other) const;

  TurnClaim claim_;
  uint32_t nearness_ = 0;  // its claim's `left`, in coarse steps
  uint64_t height_;        // drawn by lot
  const TurnIndex* index_ = nullptr;
  TurnPlace* before_ = nullptr;
  TurnPlace* behind_ = nullptr;
  // The least ones among this place and those below it.
  double least_start_ = 0;
  double least_leads_from_ = 0;
};

/// Finds the flow whose turn it is, by the claims of flows: of those that may go before the one
/// that has had least, the one that is nearest to the end of its operation. Bytes left count as
/// alike within a quarter (by rounding, a third at most), and then the lower number wins: all hosts
/// of two operations have to prefer the same one, but not all have the same bytes of it left.
///
/// But for SetBack, the steps of a function grow with the logarithm of the number of flows: the
/// index is a search tree by nearness and number that knows the least claims below each place, and
/// that is kept flat by heights drawn by lot (Seidel and Aragon, "Randomized search trees",
/// Algorithmica, 1996). Allocates nothing. Does not own the flows.
class TurnIndex {
 public:
  TurnIndex() = default;
  TurnIndex(const TurnIndex&) = delete;
  TurnIndex& operator=(const TurnIndex&) = delete;

  bool empty() const { return top_ == nullptr; }
  /// Adds a flow, or changes its claim. Requires: it is in no other index.
  void Put(TurnPlace* place, const TurnClaim& claim);
  /// Does nothing if the flow is not in this index.
  void Remove(TurnPlace* place);
  /// Returns the flow whose turn it is; null if there is none.
  TurnPlace* Next();
  /// Returns what the flow that has had least has had. Requires: not empty.
  double least_start() const { return top_->least_start_; }
  /// Subtracts this from what all flows have had. Takes a step for each flow.
  void SetBack(double bytes) { SetBack(top_, bytes); }

  /// Returns how often the index has looked at a place so far: tests count its steps.
  uint64_t looks() const { return looks_; }

 private:
  TurnPlace* Choose();
  TurnPlace* First(TurnPlace* top, uint32_t nearness, double start);
  TurnPlace* Renewed(TurnPlace* top);
  TurnPlace* With(TurnPlace* top, TurnPlace* place);
  TurnPlace* Without(TurnPlace* top, TurnPlace* place);
  TurnPlace* Joined(TurnPlace* before, TurnPlace* behind);
  void Split(TurnPlace* top, const TurnPlace& at, TurnPlace** before, TurnPlace** behind);
  void RenewDownTo(TurnPlace* top, const TurnPlace& place);
  void SetBack(TurnPlace* top, double bytes);

  TurnPlace* top_ = nullptr;
  TurnPlace* next_ = nullptr;  // nullptr: to be chosen
  uint64_t looks_ = 0;
};

}  // namespace harmonaize::transport
