#include "daemon/checkpoint/replication_queue.h"

namespace harmonaize::daemon {

void ReplicationQueue::Add(const PartName& name) {
  if (begun_.contains(name)) return;
  Waiting& waiting = waiting_[name.job.first];
  const Rank rank = {name.job, name.rank};
  const bool is_new = waiting.save_of.insert_or_assign(rank, name.save).second;
  if (is_new) waiting.order.push_back(rank);
}

std::optional<PartName> ReplicationQueue::Next(uint64_t now_ns) {
  std::erase_if(begun_, [&](const auto& entry) { return entry.second + kPatienceNs < now_ns; });
  if (begun_.size() >= kMostAtOnce || waiting_.empty()) return std::nullopt;
  auto turn = waiting_.upper_bound(last_tenant_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  Waiting& waiting = turn->second;
  const Rank rank = waiting.order.front();
  const PartName name = {.job = rank.first, .save = waiting.save_of.at(rank), .rank = rank.second};
  waiting.order.pop_front();
  waiting.save_of.erase(rank);
  last_tenant_ = turn->first;
  if (waiting.order.empty()) waiting_.erase(turn);
  begun_[name] = now_ns;
  return name;
}

}  // namespace harmonaize::daemon
