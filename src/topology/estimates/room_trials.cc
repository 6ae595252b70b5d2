#include "src/topology/estimates/room_trials.h"

#include <algorithm>

namespace harmonaize {
namespace {

/// Seconds for which a deprived sharer is given room, to see whether it takes it.
constexpr double kTrialSeconds = 1.5;
/// The same for a preferred one, whose room costs the others more. The mean rate needs about this
/// long to follow.
constexpr double kPreferredTrialSeconds = 0.8;
/// The trial goes on while the sharer is at least this many times as fast as before it.
constexpr double kTakesRoom = 1.1;
/// The rate to compare with grows by this factor after each such trial.
constexpr double kBaseCreeps = 1.03;
/// For a preferred sharer the rate to compare with comes nearer to what the sharer has, by this
/// fraction of the difference, so that its trials end sooner.
constexpr double kPreferredBaseCreeps = 0.5;
/// A trial of a preferred sharer that ended this many seconds ago tells nothing any more. Above the
/// time between two looks at a large cluster.
constexpr double kStaleSeconds = 4;
/// Seconds without room after the first trial that failed. They double after each further one.
constexpr double kFirstRestSeconds = 0.5;
/// Most seconds without room after a trial that failed.
constexpr double kLongestRestSeconds = 32;
/// Longest rest, in seconds, of a sharer that is deprived of its floor: it was promised to have the
/// floor soon after it wants it.
constexpr double kLongestFloorRestSeconds = 2;
/// Longest rest, in seconds, of a preferred sharer: it is to have what it wants soon after it wants
/// it.
constexpr double kLongestPreferredRestSeconds = 8;
/// Number of trials that a tenant may begin at once, and that it gets again in kLongestRestSeconds.
/// A single job that wants no more begins six in its first 40 s. A tenant that makes owner after
/// owner, none of which takes its room, has the others held back for little more than a quarter of
/// the time.
constexpr double kMostTrials = 6;

double LongestRestSeconds(const DeprivedSharer& sharer) {
  if (sharer.of_floor) return kLongestFloorRestSeconds;
  return sharer.is_preferred ? kLongestPreferredRestSeconds : kLongestRestSeconds;
}

}  // namespace

void RoomTrials::Take(const std::map<Sharer, DeprivedSharer>& deprived, double now_seconds) {
  std::erase_if(trials_, [&](const auto& one) {
    return !deprived.contains(one.first) &&
           now_seconds > one.second.until_seconds + kLongestRestSeconds;
  });
  std::erase_if(allowances_, [now_seconds](const auto& one) {
    return now_seconds > one.second.at_seconds + kLongestRestSeconds;
  });
  for (const auto& [id, sharer] : deprived) TakeOne(id, sharer, now_seconds);
}

void RoomTrials::TakeOne(const Sharer& id, const DeprivedSharer& sharer, double now_seconds) {
  Trial& trial = trials_[id];
  if (sharer.is_preferred && now_seconds > trial.until_seconds + kStaleSeconds) {
    trial = {.until_seconds = now_seconds + kFirstRestSeconds};
  }
  if (!trial.gives_room) {
    trial.until_seconds = std::min(trial.until_seconds, now_seconds + LongestRestSeconds(sharer));
  }
  if (now_seconds < trial.until_seconds) return;
  const bool is_promised = sharer.of_floor || sharer.is_preferred;
  if (trial.gives_room) {
    trial.Judge(sharer);
    if (trial.gives_room && trial.is_paid) GiveBack(id.tenant);
    trial.is_paid = false;
  } else if (is_promised || TakeAllowance(id.tenant, now_seconds)) {
    trial.gives_room = true;
    trial.is_paid = !is_promised;
    trial.base = sharer.mean;
  } else {
    return;
  }
  const double trial_seconds = sharer.is_preferred ? kPreferredTrialSeconds : kTrialSeconds;
  trial.until_seconds = now_seconds + (trial.gives_room ? trial_seconds : trial.rest_seconds);
}

// Decides whether a sharer keeps its room.
void RoomTrials::Trial::Judge(const DeprivedSharer& sharer) {
  gives_room = sharer.mean >= kTakesRoom * base;
  if (gives_room) {
    rest_seconds = 0;
    base = sharer.is_preferred ? base + kPreferredBaseCreeps * (sharer.mean - base)
                               : kBaseCreeps * base;
  } else {
    rest_seconds = std::clamp(2 * rest_seconds, kFirstRestSeconds, LongestRestSeconds(sharer));
  }
}

bool RoomTrials::TakeAllowance(uint32_t tenant, double now_seconds) {
  const auto [found, is_new] = allowances_.try_emplace(tenant, Allowance{kMostTrials, now_seconds});
  Allowance& allowance = found->second;
  const double earned = (now_seconds - allowance.at_seconds) * kMostTrials / kLongestRestSeconds;
  allowance.trials = std::min(allowance.trials + earned, kMostTrials);
  allowance.at_seconds = now_seconds;
  if (allowance.trials < 1) return false;
  allowance.trials -= 1;
  return true;
}

void RoomTrials::GiveBack(uint32_t tenant) {
  const auto found = allowances_.find(tenant);
  if (found != allowances_.end()) {
    found->second.trials = std::min(found->second.trials + 1, kMostTrials);
  }
}

bool RoomTrials::GivesRoom(const Sharer& sharer) const {
  const auto trial = trials_.find(sharer);
  return trial != trials_.end() && trial->second.gives_room;
}

}  // namespace harmonaize
