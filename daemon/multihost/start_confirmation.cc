#include "daemon/multihost/start_confirmation.h"

namespace harmonaize::daemon {
namespace {

/// Most collectives that a host may have begun without the home's word before it has to wait for
/// that. As many have to be remembered as how they ended, see CollectiveHistory.
constexpr size_t kMostOpen = 128;
/// Number of collectives that the home is told of together, the others between them included, and
/// of which it tells all hosts together. Hosts of which none is far ahead then stay below
/// kMostOpen. If a host has to stop there, each of the hosts that wait for it has told enough of
/// what it has begun for that host to go on.
constexpr size_t kTogether = 32;
/// Most collectives that the home remembers: messages that crossed the news of another end leave
/// some behind.
constexpr size_t kMost = 4096;

}  // namespace

void UnconfirmedStarts::Begin(const BegunCollective& begun) {
  open_.push_back(begun.sequence);
  untold_.push_back(begun);
}

void UnconfirmedStarts::Agree(uint64_t sequence) {
  while (!open_.empty() && open_.front() <= sequence) open_.pop_front();
}

void UnconfirmedStarts::Clear() {
  open_.clear();
  untold_.clear();
}

bool UnconfirmedStarts::may_end() const {
  return open_.size() <= kMostOpen;
}

bool UnconfirmedStarts::due(uint64_t sequence) const {
  return !untold_.empty() && sequence - untold_.front().sequence + 1 >= kTogether;
}

StartConfirmations::Outcome StartConfirmations::Take(int host, const BegunCollective& begun) {
  Begun& known = begun_[begun.sequence];
  const uint32_t first = known.digests.empty() ? begun.digest : known.digests.begin()->second;
  known.digests[host] = begun.digest;
  if (begun.digest != first || known.disagree) {
    const bool told = std::exchange(known.disagree, true);
    return told ? Outcome::kWaiting : Outcome::kDisagree;
  }
  if (known.digests.size() == static_cast<size_t>(hosts_)) {
    begun_.erase(begun.sequence);
    // Hosts begin in order, so all hosts have told of the earlier ones, too.
    agreed_end_ = begun.sequence + 1;
    return Outcome::kAll;
  }
  if (begun_.size() > kMost) begun_.erase(begun_.begin());
  return Outcome::kWaiting;
}

std::vector<int> StartConfirmations::TakeListeners() {
  std::vector<int> hosts;
  for (int host = 0; host < hosts_; ++host) {
    Listener& listener = listeners_[static_cast<size_t>(host)];
    if (listener.asks >= agreed_end_ && agreed_end_ - listener.told < kTogether) continue;
    listener = {.asks = UINT64_MAX, .told = agreed_end_};
    hosts.push_back(host);
  }
  return hosts;
}

}  // namespace harmonaize::daemon
