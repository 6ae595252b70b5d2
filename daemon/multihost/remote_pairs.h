#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "daemon/cluster/messages/pair.h"
#include "daemon/communicator/other_hosts.h"
#include "daemon/communicator/pair_lanes.h"
#include "daemon/communicator/portions.h"
#include "daemon/quota/paid_in_batches.h"
#include "daemon/tenant/posted_operation.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Communicator;
class HostGroup;
class HostPlan;
class NetworkRunner;
struct MatchedOperation;

/// Sends and receives between ranks of different hosts. Both sides count those of a pair of ranks,
/// so the n-th send meets the n-th receive. The sender's daemon offers each send and begins to
/// transfer at once; the receiver's daemon says when the receive is there, and whether it fits. A
/// send is done when its data is handed over and it was answered, so that, as within a host, no
/// send ends before its receive was posted. Every offer is answered, also for a rank that has left.
/// So a send that waits for an answer goes by the answer alone: news of a rank that left come by
/// way of the home, and may overtake the rank's last answers. A tenant may have tens of thousands
/// of transfers, so what concerns many of them is done in portions, between which the engine serves
/// other tenants.
///
/// A rank that copies private data meanwhile sends one transfer at a time, and receives one at a
/// time (SliceLane). A receive takes its turn before its daemon answers the offer. A send takes its
/// turn after the answer. A send that has its turn therefore waits for no other transfer, so
/// transfers cannot wait for each other in a circle. Thread: engine.
class RemotePairs {
 public:
  RemotePairs(Communicator* communicator, HostGroup* group, NetworkRunner* runner);

  /// Takes a send or a receive whose peer is on another host. A part whose buffer is not mapped
  /// fails on both sides.
  void Post(PostedOperation* part);
  void OnReady(PostedOperation* part);
  void OnOffer(const OfferMessage& offer);
  void OnAnswer(const AnswerMessage& answer);
  /// Notes that the network has done its part of a transfer.
  void OnExecuted(MatchedOperation* operation);
  /// Starts transfers that wait for their plans, which may be there now: some at once, the others
  /// soon.
  void OnPlanReady();

  /// Ends the transfers with a rank of another host that has left, unless they were offered before:
  /// some at once, the others soon. Requires: Communicator::HasLeft tells so.
  void OnPeerRankLeft(int rank);
  /// Answers the offers to a rank of this host that has left, which it has not taken: some at once,
  /// the others soon.
  void OnOwnRankLeft(int rank, const Status& why);
  /// Ends all transfers: some at once, the others soon. Requires: nothing is posted, and no message
  /// comes, any more.
  void FailAll(const Status& why);
  /// Returns whether transfers are left to end or offers to answer, of those that the three calls
  /// above are about. The communicator must stay meanwhile.
  bool ending() const { return !endings_.empty() || !left_here_.empty(); }

  /// Calls `call` with those of up to `most` transfers that wait for their peers. Begins behind the
  /// transfers that were looked at last.
  void LookAtSome(size_t most, uint64_t now_ns,
                  const std::function<void(const OtherHosts::WaitingPair&)>& call);
  /// Adds transfers that have waited for their peers, or for data of this host's rank, for at least
  /// `least_ns`. Looks at a limited number.
  void ListWaits(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const;
  /// Calls `call` with those of up to `most` transfers that wait for their peers. Returns how many
  /// others there are.
  size_t ForFirst(size_t most, const std::function<void(PostedOperation*)>& call) const;

 private:
  /// Names a transfer. In this order the transfers with a rank of another host lie together.
  struct TransferId {
    int peer = -1;  ///< The rank of another host.
    int self = -1;  ///< The rank of this host.
    bool sends = false;
    uint64_t number = 0;

    auto operator<=>(const TransferId&) const = default;
    int from() const { return sends ? self : peer; }
    int to() const { return sends ? peer : self; }
    /// The place right behind it.
    TransferId Next() const { return {peer, self, sends, number + 1}; }
  };
  /// A send or a receive that a rank here has posted.
  struct Transfer {
    PostedOperation* part = nullptr;
    bool offered = false;      // At the receiver: the offer is here. At the sender: it was made.
    OfferMessage offer;        // At the receiver.
    bool answered = false;     // At the receiver: sent; at the sender: got.
    bool needs_plan = false;   // It is started once there is a plan, and is in await_plan_.
    bool in_lane = false;      // It has entered its lane, if it needs one.
    bool transferred = false;  // The data has gone, or come.
    // How many slices were left when it was looked at, and since when it is so many.
    uint32_t slices_left = 0;
    uint64_t slices_left_since_ns = 0;
    MatchedOperation* running = nullptr;
    Status failure;
  };
  using Lane = PairLanes<TransferId>::Lane;
  using Transfers = std::map<TransferId, Transfer>;
  using Untaken = std::map<std::pair<int, TransferId>, OfferMessage>;  // by the receiver first
  /// Transfers of which some have not been told yet that they end.
  struct Ending {
    int peer = -1;    ///< Those with this rank; -1: all.
    TransferId next;  ///< The ones before have been told.
  };
  /// A rank of this host that has left.
  struct Departed {
    int rank = -1;
    Status why;
  };

  /// Memory of the daemon that an offer takes until a receive is posted, in bytes.
  static constexpr int64_t kOfferBytes = sizeof(Untaken::value_type) + 48;

  static TransferId IdOf(const PostedOperation& part);
  static bool Waits(const TransferId& id, const Transfer& transfer);
  static bool WaitsForData(Transfer* transfer, uint64_t now_ns);
  Transfer* Find(const TransferId& id);
  void TakeOffer(const TransferId& id, Transfer* transfer);
  void KeepOffer(const TransferId& id, const OfferMessage& offer);
  void Offer(const TransferId& id, const OperationDescriptor& send, const Status& status);
  void Advance(const TransferId& id);
  void NoteFailure(const TransferId& id, Transfer* transfer) const;
  static Lane LaneOf(const TransferId& id) { return {id.self, id.sends}; }
  bool HasTurn(const TransferId& id, Transfer* transfer);
  void LeaveLane(const TransferId& id);
  void Start(const TransferId& id, Transfer& transfer);
  void AwaitPlan(const TransferId& id, Transfer& transfer);
  Status CheckOffer(const TransferId& id, const Transfer& transfer) const;
  void Answer(const TransferId& id, const Status& status);
  void Forget(const TransferId& id);
  void Finish(const TransferId& id, Status outcome);

  // Pieces of work that portions_ does.

  bool DoOne();
  void EndOne();
  void EndNow(const TransferId& id, Transfer* transfer);
  void AnswerOne();
  void LookForOnePlan();

  Communicator* const communicator_;
  HostGroup* const host_group_;
  NetworkRunner* const runner_;
  std::map<std::pair<int, int>, uint64_t> posted_;  // by sender and receiver: of this side so far
  Transfers transfers_;                             // those that are not done
  Untaken untaken_;                                 // offers for which no receive was posted
  PaidInBatches paid_offers_{kOfferBytes};
  TransferId looked_at_;  // by LookAtSome

  PairLanes<TransferId> lanes_;     // may hold transfers that have ended
  Status end_;                      // why all transfers end; ok: they go on
  std::deque<Ending> endings_;      // in the order in which they began
  std::deque<Departed> left_here_;  // ranks here to which offers may have to be answered
  std::set<TransferId> await_plan_;
  TransferId plan_looked_for_;  // the transfer whose plan was looked for last
  size_t plan_looks_ = 0;       // how many of await_plan_ are to be looked at
  Portions portions_;
};

}  // namespace harmonaize::daemon
