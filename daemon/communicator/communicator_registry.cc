#include "daemon/communicator/communicator_registry.h"

#include <utility>

#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {

Communicator* CommunicatorRegistry::FindById(uint64_t id) const {
  const auto found = communicators_.find(id);
  return found == communicators_.end() ? nullptr : found->second.get();
}

Communicator* CommunicatorRegistry::FindByKey(uint64_t key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

Communicator* CommunicatorRegistry::Add(std::unique_ptr<Communicator> communicator) {
  Communicator* const added = communicator.get();
  noted_.reserve(communicators_.size() + 1);
  if (added->host_group() != nullptr) by_key_.emplace(added->host_group()->roster().key, added);
  communicators_.emplace(added->id(), std::move(communicator));
  return added;
}

void CommunicatorRegistry::Erase(uint64_t id) {
  const auto found = communicators_.find(id);
  if (found == communicators_.end()) return;
  if (const HostGroup* const group = found->second->host_group())
    by_key_.erase(group->roster().key);
  communicators_.erase(found);
}

void CommunicatorRegistry::NoteMayHaveEnded(Communicator& communicator) noexcept {
  if (!std::exchange(communicator.may_have_ended, true)) noted_.push_back(communicator.id());
}

}  // namespace harmonaize::daemon
