#include "daemon/checkpoint/replication_queue.h"

#include <algorithm>

namespace harmonaize::daemon {

void ReplicationQueue::Add(const PartName& name) {
  if (begun_.contains(name)) return;
  std::deque<PartName>& parts = waiting_[name.job.first];
  // An earlier save of the same rank is not worth a copy any more.
  std::erase_if(parts,
                [&](const PartName& one) { return one.job == name.job && one.rank == name.rank; });
  parts.push_back(name);
}

std::optional<PartName> ReplicationQueue::Next(uint64_t now_ns) {
  std::erase_if(begun_, [&](const auto& entry) { return entry.second + kPatienceNs < now_ns; });
  if (begun_.size() >= kMostAtOnce || waiting_.empty()) return std::nullopt;
  auto turn = waiting_.upper_bound(last_tenant_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  const PartName name = turn->second.front();
  turn->second.pop_front();
  last_tenant_ = turn->first;
  if (turn->second.empty()) waiting_.erase(turn);
  begun_[name] = now_ns;
  return name;
}

}  // namespace harmonaize::daemon
