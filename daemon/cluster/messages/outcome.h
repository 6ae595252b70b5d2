#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/numerics/types.h"

namespace harmonaize::daemon {

// How the operations of a communicator end at all of its hosts alike, and how it ends itself.
//
// Each message but AgreedMessage, AskProgressMessage and VerdictMessage goes to the home, which
// passes on what concerns all hosts.

/// The communicator ends, or is revoked, for this reason.
struct BrokenMessage {
  static constexpr MessageKind kKind = MessageKind::kBroken;
  uint64_t communicator = 0;
  bool revoked = false;
  Status status{};
};

/// A rank has left after so many collectives.
struct LeftMessage {
  static constexpr MessageKind kKind = MessageKind::kLeft;
  uint64_t communicator = 0;
  int rank = 0;
  uint64_t sequence = 0;
};

/// What a rank asked for.
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
  std::vector<RankRequest> requests{};  ///< One for the host where its ranks agree.
  std::vector<int> missing{};           ///< Ranks of the host that have not come.
  std::vector<int> queued{};  ///< Ranks that have called; their streams have earlier operations.
  Status status{};            ///< kFailed.
};

struct AskProgressMessage {
  static constexpr MessageKind kKind = MessageKind::kAskProgress;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
};

/// The home's word: this collective fails at all hosts.
struct VerdictMessage {
  static constexpr MessageKind kKind = MessageKind::kVerdict;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  Status status{};
};

/// For the log and for ranks that wait. To the home, of ranks of this host that do not get on with
/// an operation that has begun; and from the home to all.
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
/// To the home: all ranks of this host are at these collectives, of which this host's part may be
/// done before others have begun theirs, see StartConfirmations.
struct BegunMessage {
  static constexpr MessageKind kKind = MessageKind::kBegun;
  uint64_t communicator = 0;
  std::vector<BegunCollective> begun{};
  bool asks = false;  ///< To be told as soon as all have begun the last of them.
};

/// From the home: all hosts have begun the same, up to this one.
struct AgreedMessage {
  static constexpr MessageKind kKind = MessageKind::kAgreed;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
};

/// No more is begun from here: what the receiver was sent beyond these is for nobody.
struct ClosedMessage {
  static constexpr MessageKind kKind = MessageKind::kClosed;
  uint64_t communicator = 0;
  uint64_t collectives = 0;
};

using OutcomeMessage =
    std::variant<BrokenMessage, LeftMessage, ProgressMessage, AskProgressMessage, VerdictMessage,
                 LateMessage, BegunMessage, AgreedMessage, ClosedMessage>;

}  // namespace harmonaize::daemon
