#include "daemon/formation/departures.h"

#include <utility>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/tenant/member.h"
#include "daemon/tenant/session.h"

namespace harmonaize::daemon {
namespace {

/// Most ranks that are looked at, and removed, at once, before the engine looks at other tenants'
/// work.
constexpr size_t kSweptAtOnce = 256;
/// As many regions that a rank has offered count as one rank more: they forget it when it goes.
constexpr size_t kOffersPerRank = 4;

}  // namespace

// The call that may throw comes first, so that a second call after an exception finds the same
// state.
void Departures::Add(Session& session, Member* member, std::function<void()> done) {
  due_.push_back({&session, member, member->communicator, std::move(done)});
  member->gone = true;
  if (member->communicator != nullptr) ++member->communicator->departing;
}

// Asks each communicator that ranks have left whether it still executes something: as many as
// execute something at once, at most.
void Departures::Sweep() {
  for (auto group = by_executing_.begin(); group != by_executing_.end();) {
    if (group->first->executing()) {
      ++group;
      continue;
    }
    due_.splice(due_.end(), group->second);
    group = by_executing_.erase(group);
  }
  for (size_t swept = 0; swept < kSweptAtOnce && !due_.empty();) swept += SweepOne();
  if (!due_.empty()) loop_->Post([] {});
}

// Looks at the first departure that is due. Returns as how many it counts.
size_t Departures::SweepOne() {
  const auto departure = due_.begin();
  Communicator* const communicator = departure->communicator;
  if (communicator != nullptr && communicator->executing()) {
    List& group = by_executing_[communicator];
    group.splice(group.end(), due_, departure);
    return 1;
  }
  if (departure->done != nullptr) std::exchange(departure->done, nullptr)();
  if (departure->member->outstanding == 0) return Remove(departure);
  AwaitParts(departure);
  return 1;
}

void Departures::AwaitParts(List::iterator departure) {
  departure->member->on_idle = [this, departure] {
    due_.splice(due_.end(), awaiting_parts_, departure);
  };
  awaiting_parts_.splice(awaiting_parts_.end(), due_, departure);
}

size_t Departures::Remove(List::iterator departure) {
  const size_t counts = 1 + departure->member->offered_regions.size() / kOffersPerRank;
  if (departure->communicator != nullptr) {
    --departure->communicator->departing;
    communicators_.NoteMayHaveEnded(*departure->communicator);
  }
  departure->session->RemoveMember(departure->member);
  due_.erase(departure);
  return counts;
}

}  // namespace harmonaize::daemon
