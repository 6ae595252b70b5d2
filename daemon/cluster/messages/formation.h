#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Messages by which ranks of several hosts form a communicator at its home.

/// The call by which a rank takes part in a formation.
enum class FormationKind : uint8_t { kJoin = 0, kSplit, kShrink, kGrow, kJoinGrowth };
inline constexpr int kFormationKindCount = 5;

/// A rank wants to take part in a formation at the home. Answered by FormedMessage or
/// RefusedMessage, sooner or later.
struct ApplyMessage {
  static constexpr MessageKind kKind = MessageKind::kApply;
  uint64_t ticket = 0;  ///< Stands for the rank between the two daemons.
  FormationKind kind = FormationKind::kJoin;
  std::vector<uint8_t> id{};    ///< kJoin, kJoinGrowth: the unique id.
  uint64_t communicator = 0;    ///< kSplit, kShrink, kGrow: the parent.
  uint64_t round = 0;           ///< kSplit: the number of the split among the rank's.
  int ranks = 0;                ///< kJoin, kGrow, kJoinGrowth: size of the new communicator.
  int rank = 0;                 ///< Its rank there; kSplit, kShrink, kGrow: in the parent.
  bool takes_part = true;       ///< kSplit: has a color.
  int color = 0;                ///< kSplit.
  int key = 0;                  ///< kSplit.
  std::vector<int> excluded{};  ///< kShrink.
  bool abort_parent = false;    ///< kShrink.
  std::string name{};           ///< Name of the new communicator; "": the parent's.
  std::vector<uint8_t> job{};   ///< The JobIdentity that the rank's process claims; empty: none.
  uint32_t user = 0;
  std::string address{};  ///< The address of the rank's daemon.
  std::string host{};     ///< The daemon's host in the fabric, if it was told.
  bool on_gpu = false;    ///< kJoin: FormationRequest::on_gpu.
};

/// A rank gives up, and the formation fails for it.
struct WithdrawMessage {
  static constexpr MessageKind kKind = MessageKind::kWithdraw;
  uint64_t ticket = 0;
  Status status{};
};

struct TicketedRank {
  uint64_t ticket = 0;
  int rank = 0;
};

struct FormedMessage {
  static constexpr MessageKind kKind = MessageKind::kFormed;
  uint64_t communicator = 0;
  std::string name{};
  std::vector<uint8_t> job{};            ///< The JobIdentity of the job that it belongs to.
  std::vector<std::string> addresses{};  ///< By host.
  std::vector<int> fabric_hosts{};       ///< By host: its number in the fabric.
  std::vector<int> host_of_rank{};
  int self = -1;                      ///< The receiver's host.
  int home_host = -1;                 ///< The home's; -1: it has no ranks.
  std::vector<TicketedRank> ranks{};  ///< The receiver's ranks.
  uint64_t fabric = 0;                ///< FabricDigest; AskFabricMessage gets its text.
  bool all_on_gpu = false;            ///< All ranks are, by ApplyMessage::on_gpu.
};

struct RefusedMessage {
  static constexpr MessageKind kKind = MessageKind::kRefused;
  std::vector<uint64_t> tickets{};
  Status status{};
};

/// Tells ranks that wait in a formation which ranks they wait for.
struct FormingNoticeMessage {
  static constexpr MessageKind kKind = MessageKind::kFormingNotice;
  std::vector<uint64_t> tickets{};
  std::string notice{};
};

struct AskGrowIdMessage {
  static constexpr MessageKind kKind = MessageKind::kAskGrowId;
  uint64_t ticket = 0;
  uint64_t communicator = 0;
  uint32_t user = 0;
};

struct GrowIdMessage {
  static constexpr MessageKind kKind = MessageKind::kGrowId;
  uint64_t ticket = 0;
  std::vector<uint8_t> id{};
  Status status{};
};

using FormationMessages = MessageList<ApplyMessage, WithdrawMessage, FormedMessage, RefusedMessage,
                                      FormingNoticeMessage, AskGrowIdMessage, GrowIdMessage>;

}  // namespace harmonaize::daemon
