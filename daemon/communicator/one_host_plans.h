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
/// when it is wanted first, and kept. Among many ranks that takes long, and is done in the
/// background. Thread: engine.
class OneHostPlans : public std::enable_shared_from_this<OneHostPlans> {
 public:
  using Planned = std::function<void(const Result<const Schedule*>&)>;
  struct Means {
    Background* background;
    uint32_t tenant;  ///< Whose turn in the background it is.
    /// Runs a call on the engine's thread, soon. Any thread.
    std::function<void(std::function<void()> call)> post;
    /// Has the tenant pay for so many bytes more.
    std::function<Status(int64_t bytes)> pay;
  };

  OneHostPlans(int ranks, Means means) : ranks_(ranks), means_(std::move(means)) {}

  /// Calls `planned` with the schedule, or why there is none: now, or once it has been made, unless
  /// these plans are gone by then.
  void With(Collective collective, int root, bool in_place, Planned planned);
  /// True if With would call at once, or nobody has asked for it; false while it is being made.
  bool IsMade(Collective collective, int root, bool in_place) const;
  bool IsBeingMade(Collective collective, int root, bool in_place) const;
  /// Whether a schedule may take so long to make that it is made in the background.
  bool made_in_background() const;
  /// Gives large schedules away, to be destroyed elsewhere. Requires: nobody asks for one any more.
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
  std::map<Key, std::vector<Planned>> awaited_;  ///< While they are made.
};

}  // namespace harmonaize::daemon
