#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Messages about checkpoints that ranks save in memory (daemon/checkpoint).

/// To the home of a communicator: a rank's part of a round is in memory, or also in that of
/// another host.
struct PartSavedMessage {
  static constexpr MessageKind kKind = MessageKind::kPartSaved;
  uint64_t about = 0;  ///< Key of the communicator.
  int rank = 0;
  uint64_t round = 0;
  uint64_t step = 0;
  uint64_t bytes = 0;
  double stall_seconds = 0;  ///< For how long the save has kept the rank from its work.
  bool at_peer = false;
  bool to_store = false;  ///< The provider is to store it.
};

/// To the home of a communicator: a rank's part of a round is in the provider's store, or will not
/// be.
struct PartStoredMessage {
  static constexpr MessageKind kKind = MessageKind::kPartStored;
  uint64_t about = 0;  ///< Key of the communicator.
  uint64_t round = 0;
  int rank = 0;
  Status status{};  ///< Why it is not stored, or OK.
};

/// From the home of a communicator to its hosts: all ranks have their parts of a round, or no round
/// becomes complete any more.
struct RoundCompleteMessage {
  static constexpr MessageKind kKind = MessageKind::kRoundComplete;
  uint64_t about = 0;  ///< Key of the communicator.
  uint64_t round = 0;  ///< The newest complete one; 0: none.
  uint64_t step = 0;
  uint64_t peer_round = 0;  ///< The newest one of which other hosts have copies; 0: none.
  uint64_t stored = 0;      ///< Bit i: round `round` - i is in the provider's store.
  uint64_t not_stored = 0;  ///< Bit i: round `round` - i was to be there, and will not be.
  Status status{};          ///< Why no further round becomes complete, or OK.
};

/// Most bytes of a choice.
inline constexpr size_t kMostChoiceBytes = 512;

/// What rank 0 of a communicator has chosen for all ranks (ChoiceBoard): to the home, and from
/// there to the communicator's hosts.
struct ChoiceMessage {
  static constexpr MessageKind kKind = MessageKind::kChoice;
  uint64_t about = 0;   ///< Key of the communicator.
  uint64_t number = 0;  ///< Of the choice, from 1 on.
  std::vector<uint8_t> choice{};
};

/// Most saves of one job that a host tells of, the newest: it keeps two or three.
inline constexpr size_t kMostSavesTold = 16;

/// Parts of one save that a host has.
struct HeldSave {
  uint64_t save = 0;
  uint64_t step = 0;
  int ranks = 1;
  bool complete = false;  ///< All ranks are known to have their parts.
  bool kept = false;      ///< The end of an epoch.
  double saved = 0;       ///< When, in seconds since 1970.
  uint64_t bytes = 0;     ///< Of these parts.
  std::vector<int> parts{};
};

/// Asks a host which parts of a job's checkpoints it has. Answered by SavesMessage.
struct AskSavesMessage {
  static constexpr MessageKind kKind = MessageKind::kAskSaves;
  uint64_t call = 0;           ///< Stands for the question between the two daemons.
  uint32_t user = 0;           ///< TenantIdentity::across_hosts.
  std::vector<uint8_t> job{};  ///< The JobIdentity.
};
struct SavesMessage {
  static constexpr MessageKind kKind = MessageKind::kSaves;
  uint64_t call = 0;
  std::vector<HeldSave> saves{};
};

/// Bytes of a TransferTicket.
inline constexpr size_t kTransferTicketBytes = 16;

/// Asks a host to give away a part. Answered by PartAtMessage.
struct AskPartMessage {
  static constexpr MessageKind kKind = MessageKind::kAskPart;
  uint64_t call = 0;
  uint32_t user = 0;
  std::vector<uint8_t> job{};
  uint64_t save = 0;
  int rank = 0;
};
struct PartAtMessage {
  static constexpr MessageKind kKind = MessageKind::kPartAt;
  uint64_t call = 0;
  uint64_t bytes = 0;     ///< Of the part.
  std::string address{};  ///< Where it can be read, with the port.
  std::vector<uint8_t> ticket{};
  Status status{};
};

/// Asks a host to keep a copy of a part, or to go on keeping it. Answered by PartKeptMessage.
struct KeepPartMessage {
  static constexpr MessageKind kKind = MessageKind::kKeepPart;
  uint64_t about = 0;  ///< Key of the communicator whose ranks have saved it.
  uint32_t user = 0;
  std::vector<uint8_t> job{};
  uint64_t save = 0;
  uint64_t step = 0;
  uint64_t round = 0;
  int rank = 0;
  int ranks = 1;
  bool kept = false;
  double saved = 0;  ///< When the rank has saved it, in seconds since 1970.
  uint64_t bytes = 0;
  std::string address{};  ///< As PartAtMessage::address; "": it goes on keeping it.
  std::vector<uint8_t> ticket{};
};
struct PartKeptMessage {
  static constexpr MessageKind kKind = MessageKind::kPartKept;
  uint64_t about = 0;
  uint64_t round = 0;
  int rank = 0;
  Status status{};  ///< Why it does not keep it, or OK.
};

using CheckpointMessages = MessageList<PartSavedMessage, PartStoredMessage, RoundCompleteMessage,
                                       ChoiceMessage, AskSavesMessage, SavesMessage, AskPartMessage,
                                       PartAtMessage, KeepPartMessage, PartKeptMessage>;

}  // namespace harmonaize::daemon
