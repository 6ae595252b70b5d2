#include "daemon/formation/pending_formations.h"

#include <utility>

namespace harmonaize::daemon {

PendingFormation* PendingFormations::Find(const FormationKey& key) {
  const auto found = pending_.find(key);
  return found == pending_.end() ? nullptr : &found->second;
}

// The index first: an exception then leaves a key there that stands for nothing.
PendingFormation& PendingFormations::Add(const FormationKey& key, PendingFormation pending) {
  if (key.parent != 0) of_parent_[key.parent].insert(key);
  return pending_.emplace(key, std::move(pending)).first->second;
}

PendingFormation PendingFormations::Take(const FormationKey& key) {
  const auto found = pending_.find(key);
  PendingFormation taken = std::move(found->second);
  pending_.erase(found);
  // Not by the ranks that are there now: some of them may have been forgotten.
  for (const auto& ticket : taken.tickets) of_ticket_.erase(ticket);
  const auto of_parent = of_parent_.find(key.parent);
  if (of_parent == of_parent_.end()) return taken;
  of_parent->second.erase(key);
  if (of_parent->second.empty()) of_parent_.erase(of_parent);
  return taken;
}

void PendingFormations::NoteTicket(transport::PeerId peer, uint64_t ticket,
                                   const FormationKey& key) {
  Find(key)->tickets.emplace_back(peer, ticket);
  of_ticket_[{peer, ticket}] = key;
}

PendingFormation* PendingFormations::FindByTicket(transport::PeerId peer, uint64_t ticket) {
  const auto found = of_ticket_.find({peer, ticket});
  return found == of_ticket_.end() ? nullptr : Find(found->second);
}

std::vector<FormationKey> PendingFormations::OfParent(uint64_t parent) const {
  std::vector<FormationKey> keys;
  const auto found = of_parent_.find(parent);
  if (found == of_parent_.end()) return keys;
  for (const FormationKey& key : found->second) {
    if (pending_.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace harmonaize::daemon
