#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/formation/formation.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/waiting_count.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// What a rank says when it splits a communicator.
struct SplitCall {
  bool has_color = false;
  int color = 0;
  int key = 0;
};

/// Ranks that wait for others, and what is done when all have come.
struct PendingFormation {
  std::unique_ptr<Formation> formation;
  std::function<Status(Formation&)> conclude;
  std::vector<int32_t> excluded{};                        ///< A shrink's.
  std::shared_ptr<std::vector<SplitCall>> split_calls{};  ///< A split's, by the parent's rank.
  /// The ranks of other hosts that have come, by their daemon and their ticket.
  std::vector<std::pair<transport::PeerId, uint64_t>> tickets{};
  // What the tenant pays for it.
  Holding place{};
  Holding memory{};
  WaitingHold waiting{};
};

/// All that forms at this daemon. Thread: engine.
class PendingFormations {
 public:
  /// nullptr if nothing forms by this key.
  PendingFormation* Find(const FormationKey& key);
  bool contains(const FormationKey& key) const { return pending_.contains(key); }
  PendingFormation& Add(const FormationKey& key, PendingFormation pending);
  /// Removes and returns it. Requires: it is there.
  PendingFormation Take(const FormationKey& key);
  std::map<FormationKey, PendingFormation>& all() { return pending_; }
  const std::map<FormationKey, PendingFormation>& all() const { return pending_; }
  /// Notes that a rank of another host waits in what forms by this key. Requires: it forms.
  void NoteTicket(transport::PeerId peer, uint64_t ticket, const FormationKey& key);
  /// Where the rank of another host waits; nullptr if it does not.
  PendingFormation* FindByTicket(transport::PeerId peer, uint64_t ticket);
  /// The keys of what forms from this communicator.
  std::vector<FormationKey> OfParent(uint64_t parent) const;

 private:
  std::map<FormationKey, PendingFormation> pending_;
  std::map<uint64_t, std::set<FormationKey>> of_parent_;
  std::map<std::pair<transport::PeerId, uint64_t>, FormationKey> of_ticket_;
};

}  // namespace harmonaize::daemon
