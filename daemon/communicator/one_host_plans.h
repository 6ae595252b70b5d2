#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "daemon/runtime/background.h"
#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize::daemon {

/// The schedules by which a communicator's collectives are carried out on this host. Each is made
/// when it is wanted first, and kept. Making one for many ranks takes long, and is done in the
/// background. Thread: engine.
class OneHostPlans : public std::enable_shared_from_this<OneHostPlans> {
 public:
  using Planned = std::function<void(const Result<const Schedule*>&)>;
  struct Means {
    Background* background;
    uint32_t tenant;  ///< The tenant whose turn in the background the work takes.
    /// Runs a call on the engine's thread, soon. Thread: any.
    std::function<void(std::function<void()> call)> post;
    /// Charges the tenant for this many bytes more.
    std::function<Status(int64_t bytes)> pay;
  };

  OneHostPlans(int ranks, Means means) : ranks_(ranks), means_(std::move(means)) {}

  /// Calls `planned` with the schedule, or with the reason why there is none: now, or once it has
  /// been made, unless these plans are gone by then.
  void With(Collective collective, int root, bool in_place, Planned planned);
  /// Returns whether the schedule has been made.
  bool IsMade(Collective collective, int root, bool in_place) const;
  bool IsBeingMade(Collective collective, int root, bool in_place) const;
  /// Returns whether a schedule may take so long to make that it is made in the background.
  bool made_in_background() const;
  /// Has the background thread destroy the schedules, if they may be large. Requires: nobody asks
  /// for one any more.
  void Drop();

 private:
  /// The collective, its root (-1: it has none), and whether blocks are exchanged in place.
  using Key = std::tuple<Collective, int, bool>;

  static Key KeyOf(Collective collective, int root, bool in_place);
  static Schedule Make(const Key& key, int ranks);
  Status Add(const Key& key, Schedule schedule);
  void MakeInBackground(const Key& key);
  void OnMade(const Key& key, Result<Schedule> made);

  const int ranks_;
  const Means means_;
  std::map<Key, Schedule> made_;
  /// Calls that wait for a schedule that is being made.
  std::map<Key, std::vector<Planned>> awaited_;
};

}  // namespace harmonaize::daemon
