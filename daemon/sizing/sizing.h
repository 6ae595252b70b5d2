#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/config/config.h"
#include "daemon/elasticity/elastic_policy.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "daemon/sizing/host_sight.h"
#include "daemon/sizing/sizes_book.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class EventLoop;
class Offers;

/// A job that waits for places, as a scheduler tells of it.
struct NewcomerJob {
  std::string name = {};  ///< For people.
  int32_t ranks = 1;      ///< The fewest with which it begins.
  int priority = 0;
};

/// An offer that was decided on, for people.
struct SizeDecision {
  double at_seconds = 0;  ///< Since 1970.
  std::string job = {};
  std::string tenant = {};
  std::string host = {};
  bool grows = false;
  int32_t ranks = 0;
  std::string why = {};
  double expected_step_seconds = 0;  ///< 0: not known.
  double confidence = 0;
};

/// Numbers of this host, for monitoring.
struct SizingCounts {
  bool enabled = false;
  int places = 0;
  int free = 0;
  int coming = 0;
  uint64_t grows = 0;     ///< Decisions of this daemon since it began.
  uint64_t reclaims = 0;  ///< Likewise.
};

/// What the daemon that decides knows and has decided, for people. A plain value.
struct SizingReport {
  bool enabled = false;
  bool decides = false;         ///< This daemon makes the decisions.
  std::string controller = {};  ///< The address of the one that does; "": this one.
  /// Where this daemon decides. Never nullptr.
  std::shared_ptr<const SizingLook> look = {};
  std::vector<NewcomerJob> waiting = {};
  std::vector<SizeDecision> decisions = {};  ///< The newest first.
};

/// Has the sizes of elastic jobs follow the load (docs/elasticity.md). Each daemon tells the
/// cluster's controller what it knows of places and jobs. The controller decides, on another
/// thread, who is offered ranks, and the daemons of the hosts concerned make the offers. Nothing of
/// it is kept: after a restart of either it is told anew. Thread: engine.
class Sizing {
 public:
  struct Services {
    const SizingConfig* config = nullptr;
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone.
    EventLoop* loop = nullptr;
    Offers* offers = nullptr;
    SightServices sight = {};
    /// Of the provider's policy: see SizesBook::MostOfTenant.
    SizesBook::MostOfTenant most_of_tenant = {};
  };

  /// Requires: all objects that the services name outlive this one.
  explicit Sizing(const Services& services);

  /// Begins, if the provider wants it.
  void Begin();
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  void OnPeerLost(transport::PeerId peer);

  /// Notes the jobs that wait for places, in the order in which they are to begin, for so many
  /// seconds: a scheduler says it again and again. Errors: kInvalidUsage where this daemon does not
  /// decide, with the address of the one that does.
  Status SetWaiting(std::vector<NewcomerJob> waiting, double for_seconds);
  SizingReport Report() const;
  SizingCounts Counts() const { return counts_; }

  /// Most jobs that may wait: as far as a scheduler looks ahead.
  static constexpr size_t kMostWaiting = 256;

 private:
  void Look();
  void TellController(HostSizesMessage sizes);
  void Reach();
  void Decide();
  void OnDecided(const SizingLook& look, const std::vector<ElasticOffer>& offers);
  void Ask(const SizingLook::Host& host, const SizedJob& job, const ElasticOffer& offer,
           int32_t least);
  int32_t RanksToOffer(const Job& job, const SizeOfferMessage& message) const;
  void MakeOffer(const SizeOfferMessage& message);
  double Now() const;
  bool decides() const;

  const Services services_;
  HostSight sight_;
  SizesBook book_;
  const double began_seconds_;  ///< Since 1970.
  const uint64_t began_ns_;     ///< By the monotonic clock.
  LoopTimer next_look_;
  /// Only the calls of thread_ use it, one at a time.
  const std::shared_ptr<ElasticPolicy> policy_;
  double deciding_until_seconds_ = 0;  ///< Until when a look is awaited; 0: none is.
  std::shared_ptr<const SizingLook> look_ =
      std::make_shared<const SizingLook>();  ///< The last one.
  std::vector<NewcomerJob> waiting_;
  double waiting_until_seconds_ = 0;
  SizingCounts counts_;
  std::deque<SizeDecision> decisions_;  ///< The newest first.
  std::optional<transport::PeerId> controller_;
  bool is_reaching_ = false;
  Lifetime lifetime_;
  /// Of the policy; nullptr until this daemon decides. Declared last: its calls post to this
  /// object.
  std::unique_ptr<Background> thread_;
};

}  // namespace harmonaize::daemon
