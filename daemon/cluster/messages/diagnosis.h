#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"

namespace harmonaize::daemon {

// Messages by which the hosts of a communicator find out together which rank keeps an operation
// from ending. They are sent only while an operation takes long, and each is bounded. `about` is
// the communicator's key: these messages go to the diagnosis, and not to the communicator.

/// What an operation waits for of a rank.
enum class Awaited : uint8_t {
  kCall = 0,  ///< The rank has not posted the operation.
  kStream,    ///< The rank has posted it, and its stream has earlier operations.
  kData,      ///< The rank has posted it, and its private data is not there.
};
inline constexpr int kAwaitedCount = 3;

/// What a process does, as far as anyone may read it from the kernel.
enum class Doing : uint8_t {
  kUnknown = 0,
  kRunning,      ///< Its processor time grows.
  kSleeping,     ///< It waits for something that is neither a disk nor memory.
  kStopped,      ///< By SIGSTOP or one like it.
  kTraced,       ///< A debugger has stopped it.
  kSwapping,     ///< It waits for memory that was swapped out.
  kOnDisk,       ///< It waits for a disk, a file system or a device.
  kOutOfMemory,  ///< The kernel has killed a process of its control group for lack of memory.
  kEnded,
};
inline constexpr int kDoingCount = 9;

/// Why an operation does not get on.
enum class HangClass : uint8_t {
  kNone = 0,
  kComputing,          ///< A rank runs, and has not posted it: no fault.
  kCalledLate,         ///< A rank has posted it long after the others.
  kNotCalled,          ///< A rank has not posted it, and does not run; Doing says what it does.
  kNotFilled,          ///< A rank has posted it, and its private data is missing.
  kMismatch,           ///< Ranks have asked for different operations.
  kDead,               ///< A rank's process has ended.
  kSlowTransfer,       ///< All ranks have posted it, and it takes far longer than usual.
  kDaemonUnreachable,  ///< A rank's daemon does not answer.
};
inline constexpr int kHangClassCount = 9;

/// An operation of a communicator: a collective by its number, or what a pair of ranks exchanges.
struct OperationKey {
  bool pair = false;
  uint64_t sequence = 0;  ///< Of a collective.
  int from = -1;          ///< Of a pair: the sender.
  int to = -1;            ///< Of a pair: the receiver.
  /// The ranks carry it out themselves, all at one host, and `sequence` is the ticket by which they
  /// count. No message tells of such an operation.
  bool by_ranks = false;

  auto operator<=>(const OperationKey&) const = default;
};

/// A rank that keeps others waiting and waits for nobody.
struct HangRoot {
  int rank = 0;
  std::string communicator{};  ///< Communicator::label() of the communicator that has the rank.
  HangClass hang = HangClass::kNone;
  Doing doing = Doing::kUnknown;

  auto operator<=>(const HangRoot&) const = default;
};

/// Where a rank stands that an operation waits for.
struct RankStanding {
  int rank = 0;
  Awaited awaited = Awaited::kCall;
  Doing doing = Doing::kUnknown;
  std::vector<HangRoot> behind{};  ///< The rank waits elsewhere, and these keep it waiting there.
};

/// The most ranks of one host that a message names, and the most roots of each.
inline constexpr size_t kMostStandings = 64;
inline constexpr size_t kMostRoots = 16;

/// From the home: where do your ranks stand with this operation?
struct AskStandingMessage {
  static constexpr MessageKind kKind = MessageKind::kAskStanding;
  uint64_t about = 0;
  OperationKey operation{};
};

/// To the home: where the ranks of this host stand with an operation. Sent while ranks of the host
/// wait in it, and as the answer to the home's question.
struct StandingMessage {
  static constexpr MessageKind kKind = MessageKind::kStanding;
  uint64_t about = 0;
  OperationKey operation{};
  std::string name{};          ///< "AllReduce #12"; "": no rank here has posted it.
  bool waits = false;          ///< Ranks here wait in it.
  bool under_way = false;      ///< All ranks here have posted it, and it is being carried out.
  uint64_t waited_ms = 0;      ///< Since the first rank here waits.
  uint64_t late_after_ms = 0;  ///< When a rank here counts as late, by the gaps of this host.
  uint64_t usual_ms = 0;       ///< What the operation usually takes; 0: unknown.
  std::vector<int> senders{};  ///< Ranks of other hosts whose data this host waits for.
  std::vector<RankStanding> ranks{};  ///< The ranks of the host that the operation waits for.
};

/// From the home to a host that has told of an operation: what keeps it from ending. kNone: not
/// known yet.
struct HangMessage {
  static constexpr MessageKind kKind = MessageKind::kHang;
  uint64_t about = 0;
  OperationKey operation{};
  std::string name{};
  HangClass hang = HangClass::kNone;
  uint64_t waited_ms = 0;
  std::vector<HangRoot> roots{};
  std::string notice{};          ///< The sentence.
  std::vector<int> waits_for{};  ///< The communicator's ranks that it waits for itself.
  std::string stage{};           ///< Of kSlowTransfer: what it waits for.
};

using DiagnosisMessages = MessageList<AskStandingMessage, StandingMessage, HangMessage>;

}  // namespace harmonaize::daemon
