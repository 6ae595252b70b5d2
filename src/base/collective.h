#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/status.h"

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

/// Returns "AllReduce", "Send", ... as NCCL spells them.
std::string_view CollectiveName(Collective collective);
/// Returns the collective that "AllReduce", "allreduce", "all-reduce" or "all_reduce" means.
/// Errors: kInvalidArgument, with the likely one, when there is none.
Result<Collective> FindCollective(std::string_view text);

/// Returns whether the operation combines values with an operator.
constexpr bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

/// Returns whether the operation has a root rank.
constexpr bool HasRoot(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

/// Returns whether the operation is one half of a pair: kSend or kReceive.
constexpr bool IsPointToPoint(Collective collective) {
  return collective == Collective::kSend || collective == Collective::kReceive;
}

/// Number of blocks of `count` elements that each buffer of one rank holds. 0 means that the rank
/// does not use the buffer: the receive buffer of a rank other than the root in a reduce, say.
/// BlocksOf takes as `root` the root rank or, in a send or a receive, the peer.
struct BufferBlocks {
  uint64_t send = 0;
  uint64_t receive = 0;
};
constexpr BufferBlocks BlocksOf(Collective collective, int ranks, int rank, int root) {
  const auto all = static_cast<uint64_t>(ranks);
  const bool at_root = rank == root;
  switch (collective) {
    case Collective::kAllReduce: return {1, 1};
    case Collective::kReduce: return {1, at_root ? 1u : 0u};
    case Collective::kBroadcast: return {at_root ? 1u : 0u, 1};
    case Collective::kAllGather: return {1, all};
    case Collective::kReduceScatter: return {all, 1};
    case Collective::kAllToAll: return {all, all};
    case Collective::kGather: return {1, at_root ? all : 0};
    case Collective::kScatter: return {at_root ? all : 0, 1};
    case Collective::kSend: return {1, 0};
    case Collective::kReceive: return {0, 1};
  }
  return {};
}

/// Returns the size of an operation in bytes, as nccl-tests count it: it is that of the largest
/// buffer that a rank uses. A block has `block_bytes`.
constexpr uint64_t OperationBytes(Collective collective, int ranks, uint64_t block_bytes) {
  // With its own rank as the root, a rank uses every buffer that any rank uses.
  const BufferBlocks blocks = BlocksOf(collective, ranks, 0, 0);
  return (blocks.send > blocks.receive ? blocks.send : blocks.receive) * block_bytes;
}

}  // namespace harmonaize
