#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon/communicator/communicator.h"

namespace harmonaize::daemon {

/// All communicators that have ranks on this host, or have their home here. Thread: engine.
class CommunicatorRegistry {
 public:
  using Communicators = std::map<uint64_t, std::unique_ptr<Communicator>>;

  /// By Communicator::id().
  const Communicators& all() const { return communicators_; }
  /// Returns the communicator; nullptr once it is gone.
  Communicator* FindById(uint64_t id) const;
  /// Returns the communicator with this number among all hosts (Roster::key); nullptr if there is
  /// none.
  Communicator* FindByKey(uint64_t key) const;

  /// Returns a number for Communicator::id() that no other communicator has had.
  uint64_t NextId() { return next_id_++; }
  Communicator* Add(std::unique_ptr<Communicator> communicator);
  void Erase(uint64_t id);

  /// Notes that a communicator may have ended. Throws nothing.
  void NoteMayHaveEnded(Communicator& communicator) noexcept;
  /// Calls `look` with each communicator that was noted. It stays noted if `look` returns true, or
  /// throws. `look` may erase it.
  template <typename Look>
  void LookAtNoted(Look&& look) {
    for (size_t i = 0; i < noted_.size();) {
      Communicator* const communicator = FindById(noted_[i]);
      if (communicator != nullptr && look(*communicator)) {
        ++i;
        continue;
      }
      if (Communicator* const left = FindById(noted_[i])) left->may_have_ended = false;
      noted_[i] = noted_.back();
      noted_.pop_back();
    }
  }

 private:
  Communicators communicators_;
  std::unordered_map<uint64_t, Communicator*> by_key_;
  std::vector<uint64_t> noted_;  // has room for all communicators
  uint64_t next_id_ = 1;
};

}  // namespace harmonaize::daemon
