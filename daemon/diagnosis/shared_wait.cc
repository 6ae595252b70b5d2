#include "daemon/diagnosis/shared_wait.h"

#include <algorithm>
#include <utility>

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;

// Adds a rank that is waited for. Of two words about one rank, the one that knows more counts.
void AddAwaited(AwaitedFact rank, WaitFact* fact) {
  const auto known = std::find_if(fact->awaited.begin(), fact->awaited.end(),
                                  [&](const AwaitedFact& one) { return one.rank == rank.rank; });
  if (known == fact->awaited.end()) {
    if (fact->awaited.size() < kMostStandings) fact->awaited.push_back(std::move(rank));
  } else if (known->does.doing == Doing::kUnknown && known->behind.empty()) {
    rank.awaited = std::max(rank.awaited, known->awaited);
    *known = std::move(rank);
  }
}

}  // namespace

void SharedWait::Note(int host, StandingMessage standing, uint64_t now_ns) {
  Heard& heard = by_host_[host];
  heard.standing = std::move(standing);
  heard.heard_ns = now_ns;
  heard.unanswered_ns = 0;
}

bool SharedWait::AnyWaits(int self, uint64_t now_ns, uint64_t kept_ns) const {
  return std::any_of(by_host_.begin(), by_host_.end(), [&](const auto& entry) {
    const Heard& heard = entry.second;
    const uint64_t fresh_ns = entry.first == self ? 0 : kept_ns;
    return heard.standing.has_value() && heard.standing->waits &&
           now_ns <= heard.heard_ns + fresh_ns;
  });
}

bool SharedWait::IsToBeAsked(int host, uint64_t now_ns, uint64_t period_ns) {
  const Heard& heard = by_host_[host];
  const bool fresh = heard.heard_ns != 0 && now_ns < heard.heard_ns + period_ns;
  const bool asked = heard.asked_ns != 0 && now_ns < heard.asked_ns + period_ns;
  return !fresh && !asked;
}

void SharedWait::NoteAsked(int host, uint64_t now_ns) {
  Heard& heard = by_host_[host];
  heard.asked_ns = now_ns;
  if (heard.unanswered_ns == 0) heard.unanswered_ns = now_ns;
}

bool SharedWait::HasSpokenAt(int host, uint64_t now_ns) const {
  const auto found = by_host_.find(host);
  return found != by_host_.end() && found->second.heard_ns == now_ns;
}

std::vector<int> SharedWait::AddTo(int ranks, const IsSilent& is_silent, WaitFact* fact) const {
  std::vector<int> silent;
  for (const auto& [host, heard] : by_host_) {
    if (is_silent(host, heard.unanswered_ns)) {
      silent.push_back(host);
    } else if (!heard.standing.has_value()) {
      fact->all_posted = false;
    } else {
      Add(heard, ranks, fact);
    }
  }
  std::sort(fact->senders.begin(), fact->senders.end());
  fact->senders.erase(std::unique(fact->senders.begin(), fact->senders.end()), fact->senders.end());
  if (fact->still_since_ns == 0) fact->still_since_ns = fact->since_ns;
  return silent;
}

void SharedWait::Add(const Heard& heard, int ranks, WaitFact* fact) {
  const StandingMessage& standing = *heard.standing;
  if (!standing.name.empty() && (standing.waits || fact->operation.empty())) {
    fact->operation = standing.name;
  }
  if (standing.waits) {
    const uint64_t waited_ns = standing.waited_ms * kNanosecondsPerMillisecond;
    fact->since_ns = std::min(fact->since_ns, heard.heard_ns - std::min(heard.heard_ns, waited_ns));
  }
  fact->late_after_ns =
      std::max(fact->late_after_ns, standing.late_after_ms * kNanosecondsPerMillisecond);
  fact->usual_ns = std::max(fact->usual_ns, standing.usual_ms * kNanosecondsPerMillisecond);
  fact->all_posted = fact->all_posted && (fact->key.pair || standing.under_way);
  for (const int sender : standing.senders) {
    if (fact->senders.size() < kMostStandings) fact->senders.push_back(sender);
  }
  for (const RankStanding& rank : standing.ranks) {
    if (rank.rank >= ranks) continue;
    // Its own host has followed it: `behind`.
    AddAwaited({.rank = rank.rank,
                .awaited = rank.awaited,
                .does = {rank.doing, 0, rank.doing != Doing::kUnknown},
                .behind = rank.behind},
               fact);
  }
}

}  // namespace harmonaize::daemon
