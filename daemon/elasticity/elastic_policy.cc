#include "daemon/elasticity/elastic_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "daemon/elasticity/placement.h"

namespace harmonaize::daemon {
namespace {

std::string WhyOf(const SizeChange& change, double step_now, double step_then) {
  switch (change.reason) {
    case SizeReason::kNewcomer: return "the places are needed for work that waits";
    case SizeReason::kDeadline:
      return change.ranks > 0 ? fmt::format(
                                    "the deadline would be missed: a step is expected to "
                                    "take {:.3g} s instead of {:.3g} s",
                                    step_then, step_now)
                              : "the places are needed for work that would be late";
    case SizeReason::kShortens:
      return fmt::format("a step is expected to take {:.3g} s instead of {:.3g} s", step_then,
                         step_now);
    case SizeReason::kTrade: return "the places bring more elsewhere";
    case SizeReason::kCheaper:
      return fmt::format(
          "the job is cheaper with fewer ranks: a step is expected to take {:.3g} s "
          "instead of {:.3g} s",
          step_then, step_now);
  }
  return "";
}

}  // namespace

std::vector<bool> ElasticPolicy::LeftAlone(const ElasticWorld& world) const {
  std::vector<bool> left_alone;
  for (const ElasticJob& job : world.jobs) {
    const auto found = memories_.find(job.id);
    const double own = found == memories_.end() ? 0 : found->second.alone_until_seconds;
    left_alone.push_back(job.is_asked ||
                         world.now_seconds < std::max(own, job.quiet_until_seconds));
  }
  return left_alone;
}

std::vector<bool> ElasticPolicy::Settling(const ElasticWorld& world) const {
  std::vector<bool> settling;
  for (const ElasticJob& job : world.jobs) {
    const auto found = memories_.find(job.id);
    settling.push_back(found != memories_.end() &&
                       world.now_seconds < found->second.quiet_until_seconds);
  }
  return settling;
}

/// Counts the looks that want the same, and forgets jobs that are gone.
void ElasticPolicy::Note(const ElasticWorld& world, const std::vector<SizeChange>& changes) {
  std::map<uint64_t, Memory> kept;
  for (const ElasticJob& job : world.jobs) {
    Memory memory = memories_[job.id];
    memory.is_wanted = false;
    kept.emplace(job.id, memory);
  }
  for (const SizeChange& change : changes) {
    Memory& memory = kept[world.jobs[change.job].id];
    const bool grows = change.ranks > 0;
    if (memory.is_wanted) continue;  // by another change of the same look
    memory.is_wanted = true;
    memory.looks = memory.grows == grows ? memory.looks + 1 : 1;
    memory.grows = grows;
  }
  for (auto& [id, memory] : kept) {
    if (!memory.is_wanted) memory.looks = 0;
  }
  memories_ = std::move(kept);
}

bool ElasticPolicy::IsRipe(const ElasticJob& job, SizeReason reason) const {
  return IsUrgent(reason) || memories_.at(job.id).looks >= pace_.looks;
}

std::vector<ElasticOffer> ElasticPolicy::Decide(const ElasticWorld& world) {
  const std::vector<SizeChange> changes =
      SizePlanner(world, LeftAlone(world), Settling(world)).Plan();
  Note(world, changes);
  const Placement before(world);
  Placement after = before;
  std::vector<const SizeChange*> made;
  for (const SizeChange& change : changes) {
    if (!change.is_possible || !IsRipe(world.jobs[change.job], change.reason)) continue;
    made.push_back(&change);
    if (change.ranks > 0) {
      after.Grow(change.job, change.host, change.ranks);
    } else {
      after.Shrink(change.job, change.host, -change.ranks);
    }
  }
  std::vector<ElasticOffer> offers;
  for (const SizeChange* change : made) {
    const ElasticJob& job = world.jobs[change->job];
    const double step_then = after.StepSecondsWith(change->job, 0, 0);
    offers.push_back({.job = job.id,
                      .host = change->host,
                      .grows = change->ranks > 0,
                      .ranks = std::abs(change->ranks),
                      .reason = change->reason,
                      .why = WhyOf(*change, before.StepSecondsWith(change->job, 0, 0), step_then),
                      .expected_step_seconds = step_then,
                      .confidence = job.speed.Confidence(after.size(change->job))});
    Memory& memory = memories_[job.id];
    memory.looks = 0;
    memory.alone_until_seconds = world.now_seconds + pace_.shows_after_seconds;
    memory.quiet_until_seconds =
        world.now_seconds +
        std::max(pace_.settle_seconds, pace_.settle_pauses * job.change_seconds);
  }
  return offers;
}

}  // namespace harmonaize::daemon
