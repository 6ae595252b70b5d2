#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/messages/tuning.h"
#include "daemon/nccl_tuning/tuned_communicator.h"
#include "daemon/plans/plan_review.h"
#include "daemon/plans/plan_switch.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/lifetime.h"
#include "src/planner/cost_model.h"
#include "src/planner/fabric_model.h"
#include "src/planner/rated_models.h"
#include "src/planner/tuning_advice.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// A communicator at its home, for reports.
struct TunedReport {
  TunedKey key;
  int ranks = 0;
  int known_ranks = 0;
  std::vector<int> hosts = {};  ///< In the fabric.
  uint64_t changes = 0;
  double slowdown = 1;         ///< Largest factor of the advice that holds.
  std::string stays_as_it_is;  ///< Why nothing changes any more; "": it may change.
};

/// At the home of tuned communicators: advises NCCL by what links carry (AdviseTuning), and has all
/// hosts of a communicator change their tables at once (plan_switch.h). Of a communicator that is
/// not known whole, or of which a rank has left, nothing changes.
///
/// Thread: engine. Time is passed in.
class TuningHome {
 public:
  struct Services {
    std::shared_ptr<RatedModels> models;        ///< Of the provider's fabric.
    std::shared_ptr<const FabricModel> stated;  ///< The fabric.
    NetworkCosts costs = {};
    double least_gain = 1;  ///< As PlanReview has it.
    Background* background = nullptr;
    /// Runs a call on the engine's thread.
    std::function<void(std::function<void()>)> post;
    /// Sends to a daemon, which may be this one.
    std::function<void(transport::PeerId, const ClusterMessage&)> send;
  };

  explicit TuningHome(Services services) : services_(std::move(services)) {}

  void OnRanks(transport::PeerId peer, const TunedRanksMessage& message);
  void OnPromise(transport::PeerId peer, const TuningPromiseMessage& promise);
  void OnPeerLost(transport::PeerId peer);

  /// Takes in what links carry where that is not what the fabric states.
  void OnRates(const EdgeRates& rates, uint64_t now_ns);
  /// Calls off the rounds of which some host does not answer. To be called now and then.
  void Tick(uint64_t now_ns);
  bool empty() const { return groups_.empty(); }

  std::vector<TunedReport> Report() const;

  /// Most communicators of a user that are known here. Others keep NCCL's own choices.
  static constexpr size_t kMostOfUser = 256;
  /// Most communicators that are known here.
  static constexpr size_t kMost = 4096;
  /// Most hosts of a communicator for which predictions are made: their time grows with the number.
  static constexpr size_t kMostHosts = 256;
  /// The longest time, in nanoseconds, that hosts may take to promise. Ranks may wait meanwhile.
  static constexpr uint64_t kLongestRoundNanoseconds = 1'000'000'000;

 private:
  struct Part {
    int host = 0;
    int ranks = 0;
  };
  struct Group {
    int ranks = 0;
    std::map<transport::PeerId, Part> parts;
    std::string stays_as_it_is;
    TuningAdvice in_force = NoTuningAdvice();
    /// An earlier home has changed the tables, so that `in_force` may not be what holds.
    bool is_changed = false;
    std::optional<PlanReview> review;
    EdgeRates reviewed;
    bool was_called_off = false;  ///< The last change, so it is to be tried again.
    uint64_t next_review_ns = 0;
    bool reviewing = false;
    uint64_t changes = 0;

    // The round that is under way.
    std::optional<SwitchLeader> leader;    ///< Once all ranks are known.
    std::vector<transport::PeerId> hosts;  ///< By the leader's numbers.
    uint64_t first_round = 0;              ///< Rounds of the leader are told from here on.
    TuningAdvice proposed;
    uint64_t proposed_ns = 0;
    std::map<uint64_t, uint64_t> checkpoints;  ///< Digests by number, of the round's promises.

    int known_ranks() const;
  };
  using Groups = std::map<TunedKey, Group>;

  bool HasRoomFor(uint32_t user) const;
  void Freeze(const TunedKey& key, Group* group, std::string why);
  void Complete(Group* group);
  bool IsDue(const Group& group, const EdgeRates& rates, uint64_t now_ns) const;
  void Review(const TunedKey& key, Group* group, const EdgeRates& rates);
  void OnAdvice(const TunedKey& key, const Result<TuningAdvice>& advice);
  void Propose(const TunedKey& key, Group* group, const TuningAdvice& advice);
  bool Agree(Group* group, const std::vector<uint64_t>& checkpoints);
  void TellAll(const TunedKey& key, Group* group,
               const std::optional<SwitchLeader::Settlement>& settlement, const std::string& why);

  const Services services_;
  Groups groups_;
  std::set<uint32_t> advising_;  ///< Users for whom the background makes an advice.
  uint64_t now_ns_ = 0;          ///< The time that was passed in last.
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
