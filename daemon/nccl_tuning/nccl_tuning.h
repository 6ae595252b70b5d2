#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/config/config.h"
#include "daemon/nccl_tuning/tuned_communicator.h"
#include "daemon/nccl_tuning/tuning_home.h"
#include "daemon/plans/fabrics.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "daemon/tenant/region.h"
#include "daemon/tenant/session.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The provider's part of NCCL's tuner plugin (docs/nccl-tuner.md): the communicators of stock
/// NCCL's that have ranks here, and those of which this daemon is the home. Every daemon finds the
/// home of a communicator by itself: the cluster's controller, or the host of the fabric that
/// NCCL's hash of the communicator's id leads to.
///
/// Works where plans follow links (ControlLoop::active). Thread: engine.
class NcclTuning {
 public:
  /// All of these outlive the object.
  struct Services {
    const Config* config = nullptr;
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone.
    const Fabrics* fabrics = nullptr;
    Background* background = nullptr;
    EventLoop* loop = nullptr;
    /// Looks at the traffic and tells homes of it, if it is time (ControlLoop::Tick).
    std::function<void(uint64_t now_ns)> look_at_traffic;
  };

  explicit NcclTuning(const Services& services);

  struct Opened {
    uint32_t number = 0;  ///< For Close; 0: this communicator is not tuned.
    int descriptor = -1;  ///< Of the TuningSegment.
  };
  /// Takes in a rank of NCCL's communicator, of a session, with its TuningPosition. Errors:
  /// kInvalidArgument for numbers that no communicator has; kInvalidUsage for the communicator of
  /// another tenant, for a rank more than its communicator has, and for a tenant over its quota;
  /// kSystemError without memory or descriptors.
  Result<Opened> Open(Session& session, uint64_t communicator, int ranks, int hosts,
                      std::shared_ptr<RegionMemory> position);
  /// Forgets a rank. Errors: kInvalidArgument for a number that the session does not have.
  Status Close(const Session& session, uint32_t number);
  void LoseSession(uint32_t session);

  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  void OnPeerLost(transport::PeerId peer);

  /// Returns the homes that are to hear of this host's traffic, because communicators that have
  /// ranks here call.
  std::set<transport::PeerId> ActiveHomes() const;
  /// Takes in what links carry where that is not what the fabric states.
  void OnRates(const EdgeRates& rates, uint64_t now_ns);

  /// Communicators of which this daemon is the home.
  std::vector<TunedReport> Report() const;
  /// A communicator with ranks here, for reports.
  struct Here {
    uint32_t tenant = 0;  ///< TenantIdentity::number.
    TunedKey key;
    int ranks = 0;
    int here = 0;
    uint64_t changes = 0;
    bool has_home = false;  ///< Its home has been told.
  };
  std::vector<Here> ReportHere() const;
  struct Counts {
    uint64_t communicators = 0;  ///< Communicators with ranks here.
    uint64_t changes = 0;        ///< Changes of tables here since the daemon began.
  };
  Counts counts() const { return {known_.size(), changes_}; }

 private:
  struct Known {
    std::unique_ptr<TunedCommunicator> communicator;
    std::string home;  ///< The home's address; "": this daemon.
    std::optional<transport::PeerId> peer;
    bool told = false;
    uint64_t next_try_ns = 0;
    uint64_t active_until_ns = 0;
  };

  /// A rank here.
  struct Rank {
    uint32_t session = 0;
    TunedKey key;
  };

  bool works() const { return home_.has_value(); }
  static bool IsActive(const Known& known, uint64_t now_ns);
  bool AnyActive(uint64_t now_ns) const;
  std::optional<std::string> HomeOf(uint64_t communicator) const;
  Result<Known*> FindOrMake(Session& session, const TunedKey& key, int ranks);
  void OnRanksLeft(const TunedKey& key);
  void TellHome(const TunedKey& key, Known* known);
  void Reach(const TunedKey& key, Known* known);
  TunedRanksMessage RanksOf(const Known& known) const;
  void KeepTime();
  void Tick();
  Known* FindFrom(transport::PeerId peer, const TunedKey& key);

  const Services services_;
  int self_ = -1;  ///< This host in the fabric.
  std::optional<TuningHome> home_;
  std::map<TunedKey, Known> known_;
  std::map<uint32_t, Rank> ranks_;  // by number
  uint32_t next_number_ = 1;
  uint64_t changes_ = 0;
  LoopTimer timer_;
  std::chrono::nanoseconds pace_{0};  ///< Of the timer.
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
