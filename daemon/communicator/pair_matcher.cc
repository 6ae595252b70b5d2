#include "daemon/communicator/pair_matcher.h"

#include "daemon/tenant/member.h"

namespace harmonaize::daemon {

std::optional<PairMatcher::Match> PairMatcher::Add(PostedOperation* part) {
  const bool sends = part->descriptor.collective == Collective::kSend;
  const int self = part->member->rank;
  const int peer = part->descriptor.root;
  const Ranks ranks = sends ? Ranks{self, peer} : Ranks{peer, self};
  Queue& queue = queues_[ranks];
  (sends ? queue.sends : queue.receives).push_back(part);
  if (queue.sends.empty() || queue.receives.empty()) return std::nullopt;
  const Match match{queue.sends.front(), queue.receives.front()};
  queue.sends.pop_front();
  queue.receives.pop_front();
  queue.next_report_ns = 0;
  if (queue.sends.empty() && queue.receives.empty()) queues_.erase(ranks);
  return match;
}

template <typename Wanted>
std::vector<PostedOperation*> PairMatcher::TakeWhere(Wanted&& wanted) {
  std::vector<PostedOperation*> taken;
  std::erase_if(queues_, [&](const auto& entry) {
    const auto& [ranks, queue] = entry;
    if (!wanted(ranks)) return false;
    taken.insert(taken.end(), queue.sends.begin(), queue.sends.end());
    taken.insert(taken.end(), queue.receives.begin(), queue.receives.end());
    return true;
  });
  return taken;
}

std::vector<PostedOperation*> PairMatcher::TakeWith(int rank) {
  return TakeWhere(
      [rank](const Ranks& ranks) { return ranks.first == rank || ranks.second == rank; });
}

std::vector<PostedOperation*> PairMatcher::TakeAll() {
  return TakeWhere([](const Ranks&) { return true; });
}

}  // namespace harmonaize::daemon
