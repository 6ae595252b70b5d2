#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// How ranks of several hosts form a communicator at its home.

/// The call by which a rank takes part in what forms.
enum class FormationKind : uint8_t { kJoin = 0, kSplit, kShrink, kGrow, kJoinGrowth };
inline constexpr int kFormationKindCount = 5;

/// A rank wants to take part in what forms at the home. Answered by FormedMessage or
/// RefusedMessage, sooner or later.
struct ApplyMessage {
  static constexpr MessageKind kKind = MessageKind::kApply;
  uint64_t ticket = 0;  ///< Stands for the rank between the two daemons.
  FormationKind kind = FormationKind::kJoin;
  std::vector<uint8_t> id{};    ///< kJoin, kJoinGrowth: the unique id.
  uint64_t communicator = 0;    ///< kSplit, kShrink, kGrow: the parent.
  uint64_t round = 0;           ///< kSplit: which split of the rank's.
  int ranks = 0;                ///< kJoin, kGrow, kJoinGrowth: of the new communicator.
  int rank = 0;                 ///< In the new one; kSplit, kShrink, kGrow: in the parent.
  bool takes_part = true;       ///< kSplit: has a color.
  int color = 0;                ///< kSplit.
  int key = 0;                  ///< kSplit.
  std::vector<int> excluded{};  ///< kShrink.
  bool abort_parent = false;    ///< kShrink.
  std::string name{};           ///< Of the new communicator; "": the parent's.
  uint32_t user = 0;
  std::string address{};  ///< Where the rank's daemon is reached.
  std::string host{};     ///< Its name in the fabric, where it was told.
};

/// The rank gives up: its place fails what forms.
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
  std::vector<std::string> addresses{};  ///< By host.
  std::vector<int> fabric_hosts{};       ///< By host: its number in the fabric.
  std::vector<int> host_of_rank{};
  int self = -1;                      ///< The receiver's host.
  int home_host = -1;                 ///< The home's; -1: it has no ranks.
  std::vector<TicketedRank> ranks{};  ///< Of the receiver.
  uint64_t fabric = 0;                ///< FabricDigest; AskFabricMessage gets its text.
};

struct RefusedMessage {
  static constexpr MessageKind kKind = MessageKind::kRefused;
  std::vector<uint64_t> tickets{};
  Status status{};
};

/// For ranks that wait for others: whom they wait for.
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

using FormationMessage = std::variant<ApplyMessage, WithdrawMessage, FormedMessage, RefusedMessage,
                                      FormingNoticeMessage, AskGrowIdMessage, GrowIdMessage>;

}  // namespace harmonaize::daemon
