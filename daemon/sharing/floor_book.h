#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/topology/estimates/link_shares.h"

namespace harmonaize::daemon {

/// Those jobs of a tenant that have a floor together (LinkTerms::owner).
using FloorOwner = std::pair<uint32_t, uint64_t>;

/// A floor that was granted to an owner, in bytes per second.
struct GrantedFloor {
  double floor = 0;
  /// The most that the floors of the owner's tenant may promise together on an edge.
  double most_of_tenant = 0;

  bool operator==(const GrantedFloor&) const = default;
};

/// The floors that the controller has promised, first come first served: on each edge floors
/// promise no more together than a part of what the edge carries, and those of one tenant no more
/// than its bound. A floor that does not fit on one of its edges holds nowhere, and is tried again.
///
/// A floor is kept for an owner that pauses, for a while, unless another owner of its tenant needs
/// the room. Thread: engine. Time is passed in.
class FloorBook {
 public:
  /// Returns what the fabric states that an edge carries, in bytes a second.
  using Capacity = std::function<double(int edge)>;
  explicit FloorBook(Capacity capacity) : capacity_(std::move(capacity)) {}

  /// Takes in that an owner was granted a floor, and sends over these edges now. A floor that has
  /// changed is promised anew, and so is one that takes further edges.
  void Take(const FloorOwner& owner, const GrantedFloor& granted, const std::set<int>& edges,
            double now_seconds);
  /// Notes that an owner sends. Returns false if the book does not know its floor.
  bool Note(const FloorOwner& owner, const GrantedFloor& granted, double now_seconds);
  /// Forgets the floor of an owner that has none any more.
  void Drop(const FloorOwner& owner);
  /// Forgets owners that have sent nothing for long, and tries again to promise what was refused.
  /// To be called often.
  void Settle(double now_seconds);

  struct Answer {
    bool holds = false;
    double room = 0;  ///< If not: the largest floor that would hold.
    /// If not: whether it is the tenant's bound that leaves no more room.
    bool tenant_bound = false;
  };
  Answer AnswerFor(const FloorOwner& owner) const;
  size_t size() const { return entries_.size(); }

  /// Part of what an edge carries that floors may promise together: the rest is for the others, and
  /// for what a link loses.
  static constexpr double kPromisable = 0.8;
  /// Most floors of one tenant that are kept in the book; others are refused.
  static constexpr int kMostOfTenant = 256;
  /// Time, in seconds, for which the floor of an owner that sends nothing is kept for it.
  static constexpr double kKeptSeconds = 60;
  /// Time, in seconds, after which the floor of an owner that sends nothing gives way to another
  /// owner's of its tenant: that of a job that has ended, to that of the next one.
  static constexpr double kGivesWaySeconds = 10;

 private:
  /// The floors of one tenant that are kept, and their sums.
  struct OfTenant {
    int kept = 0;                      // owners in the book
    std::map<int, double> promised{};  // by edge
  };
  struct Entry {
    OfTenant* of_tenant = nullptr;
    GrantedFloor granted{};
    std::set<int> edges{};
    double seen_seconds = 0;
    uint64_t place = 0;  // in the order of coming
    Answer answer{};
  };
  static bool IsSilent(const Entry& entry, double now_seconds) {
    return now_seconds - entry.seen_seconds > kGivesWaySeconds;
  }
  void Release(Entry* entry);
  void Promise(Entry* entry);
  bool ReleaseSilent(uint32_t tenant, double now_seconds);
  void PromiseAnew(const FloorOwner& owner, Entry* entry, double now_seconds);
  double& PromisedOn(int edge);

  const Capacity capacity_;
  std::map<FloorOwner, Entry> entries_;
  std::map<uint32_t, OfTenant> tenants_;
  std::vector<double> promised_;  // by edge
  uint64_t next_place_ = 0;
  double next_try_seconds_ = 0;
};

/// Finds out which jobs miss their floors for so long that they are to be told. Thread: engine.
class FloorWatch {
 public:
  struct Missed {
    double seconds = 0;   ///< For which it has missed the floor, less those for which it has not.
    bool missed = false;  ///< For long enough; false again after it has been kept for as long.
    double had = 0;       ///< In bytes per second.
  };
  /// Takes in how floors fare in an interval.
  void Take(const std::map<Sharer, LinkShares::FloorReport>& floors, double now_seconds);
  /// Returns nullptr for one that has missed no floor lately.
  const Missed* Of(const Sharer& sharer) const;

  /// Seconds for which a floor has to be missed before anyone is told, and to be kept again before
  /// it counts as kept.
  static constexpr double kMissedSeconds = 2;

 private:
  std::map<Sharer, Missed> missed_;
  double taken_seconds_ = -1;
};

}  // namespace harmonaize::daemon
