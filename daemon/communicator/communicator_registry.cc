#include "daemon/communicator/communicator_registry.h"

#include <utility>

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
  const auto place = communicators_.emplace(added->id(), std::move(communicator)).first;
  if (added->other_hosts() == nullptr) return added;
  try {
    by_key_.emplace(added->other_hosts()->key(), added);
  } catch (...) {
    communicators_.erase(place);
    throw;
  }
  return added;
}

void CommunicatorRegistry::Erase(uint64_t id) {
  const auto found = communicators_.find(id);
  if (found == communicators_.end()) return;
  if (const OtherHosts* const others = found->second->other_hosts()) by_key_.erase(others->key());
  communicators_.erase(found);
}

void CommunicatorRegistry::NoteMayHaveEnded(Communicator& communicator) noexcept {
  if (!std::exchange(communicator.may_have_ended, true)) noted_.push_back(communicator.id());
}

}  // namespace harmonaize::daemon
