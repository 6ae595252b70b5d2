#pragma once

#include <cstdint>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Most ranks of a communicator of NCCL that is tuned.
inline constexpr int kMostTunedRanks = 1 << 20;

// Messages about the tables by which NCCL's tuner chooses. A tuned communicator is one of NCCL's:
// `user` is its tenant (TenantIdentity::across_hosts), and `nccl_communicator` NCCL's hash of its
// id. The tenant chooses that number, so it is no key of a communicator (AboutCommunicator).

/// A host tells the home how many ranks of a communicator have their tuner at it.
struct TunedRanksMessage {
  static constexpr MessageKind kKind = MessageKind::kTunedRanks;
  uint32_t user = 0;
  uint64_t nccl_communicator = 0;
  uint64_t fabric = 0;   ///< FabricDigest.
  int host = 0;          ///< The sender, in the fabric.
  int ranks = 0;         ///< Of the whole communicator.
  int here = 0;          ///< Ranks at the sender; 0: there are none any more.
  uint64_t changes = 0;  ///< Changes of the table at the sender.
};

/// The home proposes another table (plan_switch.h). Answered by TuningPromiseMessage.
struct TuningProposalMessage {
  static constexpr MessageKind kKind = MessageKind::kTuningProposal;
  uint32_t user = 0;
  uint64_t nccl_communicator = 0;
  uint64_t round = 0;
  std::vector<double> factors{};  ///< As TuningAdvice::factors.
  std::vector<int> channels{};    ///< As TuningAdvice::channels.
  std::vector<int> families{};    ///< As TuningAdvice::families.
};

/// A host promises that no call from number `from` on goes by the old table. A status that is not
/// ok says that it cannot.
struct TuningPromiseMessage {
  static constexpr MessageKind kKind = MessageKind::kTuningPromise;
  uint32_t user = 0;
  uint64_t nccl_communicator = 0;
  uint64_t round = 0;
  uint64_t from = 0;
  /// TuningPosition::checkpoints of its ranks, each once.
  std::vector<uint64_t> checkpoints{};
  Status status{};
};

/// The home decides a proposal: the new table holds from call `from` on, or not at all.
struct TuningSettleMessage {
  static constexpr MessageKind kKind = MessageKind::kTuningSettle;
  uint32_t user = 0;
  uint64_t nccl_communicator = 0;
  uint64_t round = 0;
  bool commit = false;
  uint64_t from = 0;
};

using TuningMessages = MessageList<TunedRanksMessage, TuningProposalMessage, TuningPromiseMessage,
                                   TuningSettleMessage>;

}  // namespace harmonaize::daemon
