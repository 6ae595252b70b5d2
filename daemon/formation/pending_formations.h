#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/formation/formation.h"
#include "daemon/jobs/job_table.h"
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

/// A formation that waits for ranks, with the call that concludes it when all have come.
struct PendingFormation {
  std::unique_ptr<Formation> formation;
  std::function<Status(Formation&)> conclude;
  std::vector<int32_t> excluded{};                        ///< A shrink's.
  std::shared_ptr<std::vector<SplitCall>> split_calls{};  ///< A split's, by the parent's rank.
  /// The ranks of other hosts that have come, by their daemon and their ticket.
  std::vector<std::pair<transport::PeerId, uint64_t>> tickets{};
  /// The job of what forms, as far as the ranks that have come tell. FormationWatch::Tick sets it.
  JobHold job{};
  /// Called with the outcome once it has formed, or has failed. Throws nothing.
  std::function<void(const Status&)> ended{};
  size_t ranks_heard = 0;        ///< How many had come when the job was set.
  std::vector<int> told_late{};  ///< Ranks that FormationObserver was told to be late.
  // Resources that the tenant is charged for it.
  Holding place{};
  Holding memory{};
  WaitingHold waiting{};
};

/// All formations at this daemon. Thread: engine.
class PendingFormations {
 public:
  /// Returns the formation with this key; nullptr if there is none.
  PendingFormation* Find(const FormationKey& key);
  bool contains(const FormationKey& key) const { return pending_.contains(key); }
  PendingFormation& Add(const FormationKey& key, PendingFormation pending);
  /// Removes and returns it. Requires: it is there.
  PendingFormation Take(const FormationKey& key);
  std::map<FormationKey, PendingFormation>& all() { return pending_; }
  const std::map<FormationKey, PendingFormation>& all() const { return pending_; }
  /// Notes that a rank of another host waits in the formation with this key. Requires: there is
  /// one.
  void NoteTicket(transport::PeerId peer, uint64_t ticket, const FormationKey& key);
  /// Returns the formation in which the rank of another host waits; nullptr if there is none.
  PendingFormation* FindByTicket(transport::PeerId peer, uint64_t ticket);
  /// Returns the keys of the formations that have this communicator as their parent.
  std::vector<FormationKey> OfParent(uint64_t parent) const;

 private:
  std::map<FormationKey, PendingFormation> pending_;
  std::map<uint64_t, std::set<FormationKey>> of_parent_;
  std::map<std::pair<transport::PeerId, uint64_t>, FormationKey> of_ticket_;
};

}  // namespace harmonaize::daemon
