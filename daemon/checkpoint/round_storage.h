#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/checkpoint/kept_parts.h"
#include "daemon/checkpoint/part_copies.h"
#include "daemon/cluster/messages/checkpoint.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/provider_store/provider_store.h"
#include "daemon/provider_store/store_threads.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class EventLoop;
struct Tenant;

/// A round of a communicator that is to be stored, as its home knows it.
struct RoundToStore {
  uint64_t key = 0;  ///< Of the communicator.
  uint64_t round = 0;
  TenantIdentity tenant = {};
  JobTable::Key job = {};
  checkpoint::CheckpointId id = {};
  uint64_t bytes = 0;
  double stall_seconds = 0;                     ///< The longest of a rank.
  double begun_seconds = 0;                     ///< When the first part came, since 1970.
  std::vector<transport::PeerId> of_rank = {};  ///< The host of each rank.
};

/// Has rounds stored in the provider's store: each host writes its ranks' parts, and the home makes
/// a checkpoint of them. A round outlives its communicator here, since ranks may end right after a
/// save. Thread: engine.
class RoundStorage {
 public:
  struct Services {
    std::shared_ptr<const ProviderStore> store = {};  ///< nullptr: this host has none.
    Cluster* cluster = nullptr;                       ///< nullptr where this host stands alone.
    EventLoop* loop = nullptr;
    /// Hears at the home what has become of a round.
    std::function<void(const RoundToStore&, const Status&)> on_settled = {};
  };

  explicit RoundStorage(Services services);

  /// At the home: follows a round until all parts are stored, or one has failed. One that is too
  /// many of its tenant's has failed soon afterwards.
  void Follow(RoundToStore round);
  /// Stores a part of this host's, and tells the home.
  void Store(const Tenant& tenant, uint64_t key, transport::PeerId home, const KeptPart& part);
  /// Returns whether a part is still being read.
  bool IsStoring(const PartName& part) const { return storing_.contains(part); }

  /// At the home: hears that a host has stored a part, or could not.
  void OnStored(transport::PeerId peer, const PartStoredMessage& stored);
  void OnPeerLost(transport::PeerId peer);
  /// Looks for parts that have not come.
  void LookAfter(uint64_t now_ns);
  bool empty() const { return rounds_.empty() && storing_.empty(); }

 private:
  using RoundName = std::pair<uint64_t, uint64_t>;  ///< Key and round.
  struct Followed {
    RoundToStore round;
    std::set<int> stored = {};  ///< Ranks whose parts are.
    bool is_committing = false;
    uint64_t commit_until_ns = 0;  ///< Until when parts of others are looked for; 0: not yet.
    uint64_t until_ns = 0;
  };

  void Commit(const RoundName& name);
  void OnLooked(const RoundName& name, const Result<bool>& is_committed);
  void Settle(const RoundName& name, const Status& status);
  void TidyUp();

  const Services services_;
  StoreThreads threads_;
  std::map<RoundName, Followed> rounds_;
  std::map<uint32_t, uint32_t> followed_of_;  ///< Number of those, by tenant.
  std::set<PartName> storing_;
  LoopTimer next_tidying_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
