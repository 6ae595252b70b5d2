#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/pair.h"
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
/// way of the home, and may overtake the rank's last answers. Thread: engine.
class RemotePairs {
 public:
  RemotePairs(Communicator* communicator, HostGroup* group, NetworkRunner* runner)
      : communicator_(communicator), host_group_(group), runner_(runner) {}

  /// Takes a send or a receive whose peer is on another host. A part whose buffer is not mapped
  /// fails on both sides.
  void Post(PostedOperation* part);
  void OnReady(PostedOperation* part);
  void OnOffer(const OfferMessage& offer);
  void OnAnswer(const AnswerMessage& answer);
  /// Notes that the network has done its part of a transfer.
  void OnExecuted(MatchedOperation* operation);
  /// Starts transfers that wait for their plans, which may be there now.
  void OnPlanReady();

  /// Ends the transfers with a rank of another host that has left, unless they were offered before.
  void OnPeerRankLeft(int rank, const Status& why);
  /// Answers the offers to a rank of this host that has left, which it has not taken.
  void OnOwnRankLeft(int rank, const Status& why);
  /// Ends all transfers.
  void FailAll(const Status& why);

  /// Calls `call` with each part that waits for its peer.
  void ForEachWaiting(const std::function<void(PostedOperation*)>& call) const;

 private:
  using Pair = std::pair<int, int>;  // sender, receiver
  struct Transfer {
    PostedOperation* part = nullptr;
    bool offered = false;      // At the receiver: the offer is here. At the sender: it was made.
    OfferMessage offer;        // At the receiver.
    bool answered = false;     // At the receiver: sent; at the sender: got.
    bool needs_plan = false;   // It is started once there is a plan.
    bool transferred = false;  // The data has gone, or come.
    MatchedOperation* running = nullptr;
    Status failure;
  };
  struct Line {
    uint64_t posted = 0;                     // sends, or receives, of this side so far
    std::map<uint64_t, Transfer> transfers;  // by number; those that are not done
  };

  /// Memory of the daemon that an offer takes until a receive is posted, in bytes.
  static constexpr int64_t kOfferBytes = sizeof(Transfer) + 96;

  bool PayForOffer();
  static Pair PairOf(const PostedOperation& part);
  template <typename Predicate>
  std::vector<std::pair<Pair, uint64_t>> Where(Predicate predicate) const;
  Transfer* Find(const Pair& pair, uint64_t number);
  void Offer(const Pair& pair, uint64_t number, const OperationDescriptor& send,
             const Status& status);
  void Advance(const Pair& pair, uint64_t number);
  void Start(const Pair& pair, uint64_t number, Transfer& transfer);
  Status CheckOffer(const Pair& pair, const Transfer& transfer) const;
  void Answer(const Pair& pair, uint64_t number, const Status& status);
  void Finish(const Pair& pair, uint64_t number, Status outcome);

  Communicator* const communicator_;
  HostGroup* const host_group_;
  NetworkRunner* const runner_;
  std::map<Pair, Line> lines_;
  int64_t untaken_ = 0;  // offers for which no receive was posted
  PaidInBatches paid_offers_{kOfferBytes};
};

}  // namespace harmonaize::daemon
