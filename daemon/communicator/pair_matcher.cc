#include "daemon/communicator/pair_matcher.h"

#include "daemon/tenant/member.h"

namespace harmonaize::daemon {

std::optional<PairMatcher::Match> PairMatcher::Add(PostedOperation* part) {
  const bool sends = part->descriptor.collective == Collective::kSend;
  const int self = part->member->rank;
  const int peer = part->descriptor.root;
  const auto [found, first] = queues_.try_emplace(sends ? Ranks{self, peer} : Ranks{peer, self});
  Queue& queue = found->second;
  part->next_of_pair = nullptr;
  if (!first && queue.first->descriptor.collective != part->descriptor.collective) {
    PostedOperation* const other = queue.first;
    queue.first = std::exchange(other->next_of_pair, nullptr);
    queue.next_report_ns = 0;
    --size_;
    if (queue.first == nullptr) queues_.erase(found);
    return sends ? Match{part, other} : Match{other, part};
  }
  (first ? queue.first : queue.last->next_of_pair) = part;
  queue.last = part;
  ++size_;
  return std::nullopt;
}

template <typename Wanted>
std::vector<PostedOperation*> PairMatcher::TakeWhere(Wanted&& wanted) {
  std::vector<PostedOperation*> taken;
  std::erase_if(queues_, [&](const auto& entry) {
    if (!wanted(entry.first)) return false;
    for (PostedOperation* part = entry.second.first; part != nullptr;) {
      taken.push_back(part);
      part = std::exchange(part->next_of_pair, nullptr);
    }
    return true;
  });
  size_ -= taken.size();
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
