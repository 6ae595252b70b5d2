#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "daemon/cluster/messages/pair.h"
#include "daemon/communicator/portions.h"
#include "daemon/quota/paid_in_batches.h"
#include "daemon/tenant/posted_operation.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Communicator;
class HostGroup;
class HostPlan;
struct HostServices;

/// The messages in pipes between the two ranks of a communicator that are on different hosts. A
/// message goes to the peer's daemon at once, by a rail that is dealt out as those of sends are.
/// The transport matches it with its receive by its name, whichever comes first.
///
/// A send ends when its message was received. The receiver's daemon tells so in *receipts*, of
/// which many go in one small message. So a rank whose sends have ended may close its pipes and
/// leave, and nothing of it is lost; receives that still wait then will never be served. News that
/// a rank has closed a pipe, or has gone, take another way than receipts do. They say how many
/// messages of receipts come first. A daemon that has begun to use pipes says so, and is told when
/// the other rank's pipes have all ended.
///
/// Thread: engine.
class RemotePipes {
 public:
  /// Requires: all of these outlive this object, which is destroyed when it is not in_use().
  RemotePipes(const HostServices& services, Communicator* communicator, HostGroup* group);

  void Post(PostedOperation* message);
  /// Closes this host's end of a pipe. Errors: those of a tenant that cannot pay for it.
  Status Close(uint32_t pipe);
  void OnOpened();
  void OnClosed(const PipesClosedMessage& closed);
  /// Goes on with messages for which a plan may have come.
  void OnPlanReady();

  // Ends: some messages end at once, the others soon.

  /// The rank of this host is gone.
  void OnOwnRankLeft(const Status& why);
  /// The communicator has ended. What the peer has received of its own is still heard, if its
  /// daemon is there.
  void FailAll(const Status& why);

  /// Returns whether messages are being sent, or the transport still refers to this object after
  /// the end.
  bool executing() const { return sending_ > 0 || (!end_.ok() && (in_use() || !all_ended_)); }
  /// Returns whether the transport refers to this object.
  bool in_use() const { return in_transport_ > 0; }

 private:
  struct Pipe;

  /// A message under way.
  struct Transfer {
    RemotePipes* owner = nullptr;
    Pipe* pipe = nullptr;
    PostedOperation* part = nullptr;
    bool sends = false;
    bool in_transport = false;
    bool received = false;  ///< The peer's daemon has told the end of a send.
    Status failure;         ///< How it ends, once the transport has let go of it.
  };
  using Transfers = std::unordered_map<uint64_t, Transfer>;  // by name

  /// This host's end of a pipe.
  struct Pipe {
    uint32_t id = 0;
    uint64_t number = 0;  ///< HostGroup::PipeNumber.
    Transfers sends;
    Transfers receives;
    bool closed_here = false;
    bool closed_there = false;

    bool empty() const { return sends.empty() && receives.empty(); }
  };

  /// Tells the other daemon that a message was received, or that it could not be.
  struct Receipt {
    uint64_t name = 0;
    uint32_t pipe = 0;
    uint32_t code = 0;
  };
  /// Receipts that go in one message: 4 KiB of them.
  static constexpr size_t kReceiptsAtOnce = 256;
  using Receipts = std::array<Receipt, kReceiptsAtOnce>;
  /// Receipts that are being sent.
  struct SentReceipts {
    RemotePipes* owner = nullptr;
    Receipts receipts;
  };

  Status Admit(PostedOperation* message, Transfer** transfer);
  Pipe* PipeOf(uint32_t pipe, Status* refused);
  Result<HostPlan*> Plan();
  int own_rank() const;
  int peer_rank() const { return 1 - own_rank(); }
  int FabricHostOfPeer() const;
  bool PeerIsLinked() const;
  void Start(Transfer* transfer);
  void PostInTransport(Transfer* transfer, HostPlan* plan);
  void OnTransported(Transfer* transfer, const Status& status, size_t bytes);
  void Finish(Transfer* transfer, Status outcome);
  void End(Transfer* transfer, const Status& why);
  void EndSends(Pipe* pipe, const Status& why);
  void EndReceives(Pipe* pipe, const Status& why);
  void DropIfUnused(Pipe* pipe);
  void Open();
  void Tell(PipesClosedMessage closed);
  void TellEnd();

  // Receipts.

  void Note(const Transfer& receive, Code code);
  void SendReceipts();
  void ExpectReceipts(HostPlan* plan);
  void OnReceipts(const Status& status, size_t bytes);
  void Take(const Receipt& receipt);

  // Ends.

  void OnPeerClosed(const PipesClosedMessage& closed);
  void BeginEnd(const Status& why);
  bool EndOne();

  const HostServices& services_;
  Communicator* const communicator_;
  HostGroup* const group_;
  std::map<uint32_t, Pipe> pipes_;  // those with messages, or closed on one side
  PaidInBatches paid_pipes_{sizeof(Pipe) + 64};
  std::set<std::tuple<uint32_t, bool, uint64_t>> await_plan_;  // by pipe, whether it sends, name

  std::vector<Receipt> due_;                  // receipts to be sent
  bool sends_receipts_ = false;               // a call of SendReceipts is posted
  uint64_t receipts_sent_ = 0;                // messages of them
  uint64_t receipts_came_ = 0;                // likewise
  bool expects_receipts_ = false;             // a receive is posted for the next ones
  Receipts receipts_;                         // where these come
  std::deque<PipesClosedMessage> too_early_;  // news that wait for receipts, in their order

  bool used_ = false;  // here or there
  bool told_end_ = false;
  bool peer_gone_ = false;  // the peer's daemon has told that it has closed all pipes
  bool ended_ = false;
  Status end_;             // why the messages end
  uint32_t next_end_ = 0;  // the pipe that ends next
  bool all_ended_ = true;
  size_t in_transport_ = 0;
  size_t sending_ = 0;
  Portions portions_;
};

}  // namespace harmonaize::daemon
