#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/numerics/types.h"

namespace harmonaize::daemon {

// Messages by which the operations of a communicator end at all of its hosts alike, and by which
// the communicator ends itself.
//
// AgreedMessage, AskProgressMessage and VerdictMessage come from the home, and ClosedMessage goes
// to all daemons that were reached. AskLostMessage goes to the home, or to the daemon that takes
// its place, and LostMessage is the answer. Every other message goes to the home, which passes on
// what concerns all hosts.

/// The communicator ends, or is revoked, for this reason.
struct BrokenMessage {
  static constexpr MessageKind kKind = MessageKind::kBroken;
  uint64_t communicator = 0;
  bool revoked = false;
  Status status{};
};

/// A rank has left after this many collectives.
struct LeftMessage {
  static constexpr MessageKind kKind = MessageKind::kLeft;
  uint64_t communicator = 0;
  int rank = 0;
  uint64_t sequence = 0;
};

/// The operation that a rank asked for.
struct RankRequest {
  int rank = 0;
  Collective collective = Collective::kAllReduce;
  uint64_t count = 0;
  DataType type = DataType::kInt8;
  ReduceOperator op = ReduceOperator::kSum;
  int root = -1;
};

/// Where a host stands with a collective.
enum class HostProgress : uint8_t {
  kWaiting = 0,  ///< Not all of its ranks have come.
  kRunning,
  kFailed,
  kDone,
};
inline constexpr int kHostProgressCount = 4;
/// A host tells the home where it stands with a collective. Sent when it takes long, when it went
/// wrong, and when the home asks; never on the way of an operation that goes well.
struct ProgressMessage {
  static constexpr MessageKind kKind = MessageKind::kProgress;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  HostProgress state = HostProgress::kWaiting;
  std::vector<RankRequest> requests{};  ///< One for the host if its ranks agree.
  std::vector<int> missing{};           ///< Ranks of the host that have not come.
  std::vector<int> queued{};  ///< Ranks that have called; their streams have earlier operations.
  Status status{};            ///< kFailed.
};

struct AskProgressMessage {
  static constexpr MessageKind kKind = MessageKind::kAskProgress;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
};

/// From the home: this collective fails at all hosts.
struct VerdictMessage {
  static constexpr MessageKind kKind = MessageKind::kVerdict;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  Status status{};
};

/// A notice for the log and for ranks that wait. To the home, about ranks of this host that do not
/// get on with an operation that has begun; and from the home to all hosts.
struct LateMessage {
  static constexpr MessageKind kKind = MessageKind::kLate;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  std::string notice{};
  std::vector<int> missing{};
};

/// A collective that a host has begun.
struct BegunCollective {
  uint64_t sequence = 0;
  uint32_t digest = 0;  ///< RequestDigest.
};
/// To the home: all ranks of this host have come to these collectives, of which this host's part
/// may be done before others have begun theirs, see StartConfirmations.
struct BegunMessage {
  static constexpr MessageKind kKind = MessageKind::kBegun;
  uint64_t communicator = 0;
  std::vector<BegunCollective> begun{};
  /// Whether the host wants to be told as soon as all have begun the last of them.
  bool asks = false;
};

/// From the home: all hosts have begun the same, up to this one.
struct AgreedMessage {
  static constexpr MessageKind kKind = MessageKind::kAgreed;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
};

/// The sender has begun this many collectives, and begins no more. The receiver drops what it was
/// sent of those that never begin there.
struct ClosedMessage {
  static constexpr MessageKind kKind = MessageKind::kClosed;
  uint64_t communicator = 0;
  uint64_t collectives = 0;
};

/// Most ranks that an answer about lost ranks names, or that a question does.
inline constexpr size_t kMostLostInMessage = 16000;

/// Asks which ranks of a communicator are gone. Answered by LostMessage.
struct AskLostMessage {
  static constexpr MessageKind kKind = MessageKind::kAskLost;
  uint64_t call = 0;        ///< Stands for the question between the two daemons.
  uint64_t about = 0;       ///< Key of the communicator.
  std::vector<int> left{};  ///< Ranks of the sender's host that have left after the home was lost.
};

struct LostMessage {
  static constexpr MessageKind kKind = MessageKind::kLost;
  uint64_t call = 0;
  /// Whether the communicator is at the sender. If not, none of its ranks there is left.
  bool known = false;
  int count = 0;             ///< Number of ranks that are gone.
  std::vector<int> ranks{};  ///< The first of them, rising.
};

using OutcomeMessages = MessageList<BrokenMessage, LeftMessage, ProgressMessage, AskProgressMessage,
                                    VerdictMessage, LateMessage, BegunMessage, AgreedMessage,
                                    ClosedMessage, AskLostMessage, LostMessage>;

}  // namespace harmonaize::daemon
