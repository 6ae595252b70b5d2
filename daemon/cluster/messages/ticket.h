#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Messages about tickets, by which newcomers get places in a job. The home of the job's
// communicator keeps the tickets and the newcomers. No message holds the secret of a ticket: it
// stays at the daemon of the process that has asked for the ticket, or that uses it.

/// What a process of a job asks the home for.
enum class TicketAct : uint8_t { kMake = 0, kBurn, kList, kAdmit, kCount };
inline constexpr int kTicketActCount = 5;

/// Bytes of the digest of a ticket's secret.
inline constexpr size_t kTicketDigestBytes = 32;
/// Most tickets that one answer lists: a message has room for them.
inline constexpr size_t kMostListedTickets = 256;

/// Asks the home of a communicator. Answered by TicketsMessage.
struct AskTicketsMessage {
  static constexpr MessageKind kKind = MessageKind::kAskTickets;
  uint64_t call = 0;   ///< Stands for the question between the two daemons.
  uint64_t about = 0;  ///< Key of the communicator.
  uint32_t user = 0;   ///< The asker's: TenantIdentity::across_hosts.
  TicketAct act = TicketAct::kList;
  std::vector<uint8_t> digest{};  ///< kMake: SHA-256 of the secret.
  int uses = 0;                   ///< kMake.
  double seconds = 0;             ///< kMake: for how long the ticket holds.
  int most = 0;                   ///< kAdmit: most newcomers that get places.
};

/// A ticket, as people may read of it.
struct TicketView {
  std::string id{};
  int uses = 0;        ///< How often it can still be used.
  double made = 0;     ///< Seconds since 1970.
  double expires = 0;  ///< Seconds since 1970.
};

struct TicketsMessage {
  static constexpr MessageKind kKind = MessageKind::kTickets;
  uint64_t call = 0;
  std::vector<uint8_t> id{};          ///< kMake: Ticket::home.
  std::vector<TicketView> tickets{};  ///< kMake: the ticket; kList: the job's, the oldest first.
  int more = 0;                       ///< kList: number of tickets beyond these.
  int waiting = 0;                    ///< Number of newcomers that wait.
  int ranks = 0;                      ///< kAdmit: size of the grown communicator.
  Status status{};
};

/// A newcomer wants a place in a job. Answered by PlaceMessage, sooner or later.
struct ComeMessage {
  static constexpr MessageKind kKind = MessageKind::kCome;
  uint64_t call = 0;
  std::vector<uint8_t> digest{};
  std::vector<uint8_t> job{};  ///< The JobIdentity.
  uint32_t user = 0;           ///< The newcomer's.
};

/// A newcomer is admitted, or refused.
struct PlaceMessage {
  static constexpr MessageKind kKind = MessageKind::kPlace;
  uint64_t call = 0;
  std::vector<uint8_t> id{};  ///< The unique id of the growth; empty: refused.
  int ranks = 0;
  int rank = 0;
  Status status{};
};

/// A newcomer does not wait any more, or has died.
struct GoneMessage {
  static constexpr MessageKind kKind = MessageKind::kGone;
  uint64_t call = 0;
};

/// All tickets of a job are burnt. Each daemon that hears it tells the daemons that it shares
/// communicators of the job with, once.
struct BurnTicketsMessage {
  static constexpr MessageKind kKind = MessageKind::kBurnTickets;
  uint64_t about = 0;   ///< Key of the communicator by way of which it comes.
  uint64_t number = 0;  ///< Stands for the burning among all daemons.
};

using TicketMessages = MessageList<AskTicketsMessage, TicketsMessage, ComeMessage, PlaceMessage,
                                   GoneMessage, BurnTicketsMessage>;

}  // namespace harmonaize::daemon
