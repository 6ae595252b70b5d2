#include "daemon/communicator/one_host_plans.h"

#include <cstdlib>
#include <utility>

#include "daemon/runtime/free_memory.h"
#include "daemon/runtime/guarded.h"
#include "src/base/log.h"
#include "src/schedule/algorithms/one_host.h"
#include "src/schedule/check/check.h"

namespace harmonaize::daemon {
namespace {

/// Most ranks for which a schedule is made when it is first needed, on the engine's thread: an
/// all-to-all among 64 takes half a millisecond.
constexpr int kRanksPlannedAtOnce = 64;

/// Returns the memory that a schedule takes, in bytes, with what malloc adds to its lists.
int64_t BytesOf(const Schedule& schedule) {
  // Bytes that malloc adds to a block.
  constexpr size_t kBlockOfMemory = 16;
  size_t bytes = 0;
  for (const Step& step : schedule.programs.front().steps) {
    bytes += sizeof step + 2 * kBlockOfMemory +
             (step.sources.size() + step.destinations.size()) * sizeof(Block);
  }
  return static_cast<int64_t>(bytes);
}

/// Destroys an object on the background thread, which has made it. A large schedule is half a
/// million blocks of memory, and freeing them would take the engine milliseconds. Only the thread
/// whose arena they are in returns them to the kernel.
void DestroyInBackground(Background& background, std::shared_ptr<void> made, uint32_t tenant) {
  background.Post(
      [held = std::move(made)]() mutable {
        held.reset();
        ReturnEndOfOwnArena();
      },
      tenant);
}

}  // namespace

OneHostPlans::Key OneHostPlans::KeyOf(Collective collective, int root, bool in_place) {
  const bool rooted = HasRoot(collective);
  if (collective == Collective::kReceive) collective = Collective::kSend;
  // One in-place rank makes an all-to-all exchange; every other schedule serves both ways.
  const bool exchanges = in_place && collective == Collective::kAllToAll;
  return {collective, rooted ? root : -1, exchanges};
}

bool OneHostPlans::made_in_background() const {
  return ranks_ > kRanksPlannedAtOnce;
}

bool OneHostPlans::IsMade(Collective collective, int root, bool in_place) const {
  return made_.contains(KeyOf(collective, root, in_place));
}

bool OneHostPlans::IsBeingMade(Collective collective, int root, bool in_place) const {
  return awaited_.contains(KeyOf(collective, root, in_place));
}

void OneHostPlans::With(Collective collective, int root, bool in_place, Planned planned) {
  const Key key = KeyOf(collective, root, in_place);
  // The schedule of a pair is as small as can be.
  const bool at_once = !made_in_background() || std::get<Collective>(key) == Collective::kSend;
  if (!made_.contains(key) && at_once) {
    const Status added = Add(key, Make(key, ranks_));
    if (!added.ok()) return planned(added);
  }
  if (const auto found = made_.find(key); found != made_.end()) return planned(&found->second);
  std::vector<Planned>& waiting = awaited_[key];
  waiting.push_back(std::move(planned));
  if (waiting.size() == 1) MakeInBackground(key);
}

void OneHostPlans::MakeInBackground(const Key& key) {
  means_.background->Post(
      [self = weak_from_this(), key, ranks = ranks_, post = means_.post,
       background = means_.background, tenant = means_.tenant] {
        auto made = std::make_shared<Result<Schedule>>(
            Caught([&]() -> Result<Schedule> { return Make(key, ranks); }));
        post([self, key, made, background, tenant]() mutable {
          if (const auto plans = self.lock()) return plans->OnMade(key, std::move(*made));
          DestroyInBackground(*background, std::move(made), tenant);
        });
      },
      means_.tenant);
}

void OneHostPlans::OnMade(const Key& key, Result<Schedule> made) {
  const Status added = made.ok() ? Add(key, std::move(*made)) : made.status();
  const std::vector<Planned> waiting = std::move(awaited_[key]);
  awaited_.erase(key);
  const Result<const Schedule*> plan =
      added.ok() ? Result<const Schedule*>(&made_.at(key)) : Result<const Schedule*>(added);
  for (const Planned& planned : waiting) planned(plan);
}

Status OneHostPlans::Add(const Key& key, Schedule schedule) {
  if (Status paid = means_.pay(BytesOf(schedule)); !paid.ok()) {
    if (made_in_background()) {
      DestroyInBackground(*means_.background, std::make_shared<Schedule>(std::move(schedule)),
                          means_.tenant);
    }
    return paid;
  }
  made_.emplace(key, std::move(schedule));
  return Status::Ok();
}

void OneHostPlans::Drop() {
  if (!made_in_background() || made_.empty()) return;
  DestroyInBackground(*means_.background,
                      std::make_shared<std::map<Key, Schedule>>(std::move(made_)), means_.tenant);
  made_.clear();
}

Schedule OneHostPlans::Make(const Key& key, int ranks) {
  const auto& [collective, root, exchanges] = key;
  const bool serves_in_place = exchanges || collective != Collective::kAllToAll;
  Schedule schedule = OneHost(collective, ranks, root, serves_in_place);
#ifndef NDEBUG
  const Status proof = Check(schedule);
  if (!proof.ok()) {
    Log(LogLevel::kError, kLogTuning, "a schedule failed its proof: {}", proof.message());
    std::abort();
  }
#endif
  return schedule;
}

}  // namespace harmonaize::daemon
