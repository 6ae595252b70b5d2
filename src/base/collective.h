#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace harmonaize {

/// The operations on a communicator. Values travel between client and daemon: append only.
enum class Collective : uint8_t {
  kAllReduce = 0,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
};
inline constexpr int kCollectiveCount = 10;

/// "AllReduce", "Send", ... as NCCL spells them.
std::string_view CollectiveName(Collective collective);

/// Whether the operation combines values with an operator.
bool Reduces(Collective collective);

/// Whether the operation has a root rank.
bool HasRoot(Collective collective);

/// Whether the operation is one half of a pair: kSend or kReceive.
inline bool IsPointToPoint(Collective collective) {
  return collective == Collective::kSend || collective == Collective::kReceive;
}

/// How many blocks of `count` elements each buffer of one rank holds, with `ranks` ranks. 0 means
/// that the rank does not use the buffer: the receive buffer of a rank other than the root in a
/// reduce, say. `root` is the root rank or, in a send or a receive, the peer.
struct BufferBlocks {
  uint64_t send = 0;
  uint64_t receive = 0;
};
BufferBlocks BlocksOf(Collective collective, int ranks, int rank, int root);

}  // namespace harmonaize
