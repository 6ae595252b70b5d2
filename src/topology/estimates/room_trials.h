#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>

#include "src/topology/estimates/sharer.h"

namespace harmonaize {

/// A sharer that has less than its share, or its floor, somewhere.
struct DeprivedSharer {
  double mean = 0;            ///< What it sends in all, in bytes per second.
  bool of_floor = false;      ///< It has less than its floor.
  bool is_preferred = false;  ///< A priority makes its share larger.
};

/// Gives deprived sharers room for a while. A sharer that has less than its share may not want
/// more, or may be unable to take it: its data waits in the others' queues at each of its steps and
/// is late, however much it is granted. That shows when the others are held back to their shares
/// for a while. A sharer that then sends more keeps its room. Otherwise it rests before the next
/// trial.
///
/// A trial that fails has cost the others something. So a tenant may begin only a few of these
/// anew while no trial of its succeeds, with however many owners. Promised floors and priorities do
/// not count.
///
/// Thread: one. Time is passed in.
class RoomTrials {
 public:
  /// Takes in who is deprived in this interval, and decides who is given room.
  void Take(const std::map<Sharer, DeprivedSharer>& deprived, double now_seconds);

  /// Returns whether a sharer that is deprived has room now.
  bool GivesRoom(const Sharer& sharer) const;

 private:
  struct Trial {
    bool gives_room = false;
    bool is_paid = false;  // it was taken from the tenant's allowance
    double base = 0;       // what the sharer had without room, in bytes per second
    double rest_seconds = 0;
    double until_seconds = -std::numeric_limits<double>::infinity();  // no trial so far

    void Judge(const DeprivedSharer& sharer);
  };
  /// Trials that a tenant may begin, each of which is given back if it succeeds.
  struct Allowance {
    double trials = 0;
    double at_seconds = 0;
  };

  void TakeOne(const Sharer& id, const DeprivedSharer& sharer, double now_seconds);
  bool TakeAllowance(uint32_t tenant, double now_seconds);
  void GiveBack(uint32_t tenant);

  std::map<Sharer, Trial> trials_;  // of those that were deprived lately
  std::map<uint32_t, Allowance> allowances_;
};

}  // namespace harmonaize
