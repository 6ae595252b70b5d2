#include "daemon/formation/departures.h"

#include <utility>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/tenant/member.h"
#include "daemon/tenant/session.h"

namespace harmonaize::daemon {

// The call that may throw comes first, so that a second call after an exception finds the same
// state.
void Departures::Add(Session& session, Member* member, std::function<void()> done) {
  departures_.push_back({&session, member, member->communicator, std::move(done)});
  member->gone = true;
  if (member->communicator != nullptr) ++member->communicator->departing;
}

void Departures::Sweep() {
  for (auto departure = departures_.begin(); departure != departures_.end();) {
    const bool executing =
        departure->communicator != nullptr && departure->communicator->executing();
    if (!executing && departure->done != nullptr) std::exchange(departure->done, nullptr)();
    if (executing || departure->member->outstanding > 0) {
      ++departure;
      continue;
    }
    if (departure->communicator != nullptr) {
      --departure->communicator->departing;
      communicators_.NoteMayHaveEnded(*departure->communicator);
    }
    departure->session->RemoveMember(departure->member);
    departure = departures_.erase(departure);
  }
}

}  // namespace harmonaize::daemon
