#include "src/client/inline/inline_direct.h"

#include <array>
#include <cstring>
#include <span>

#include "src/ipc/inline_segment.h"
#include "src/numerics/reduce.h"

namespace harmonaize {
namespace {

/// One operation's send buffers, by rank, and where this rank's result comes.
struct DirectCopies {
  std::byte* own;
  const std::byte* const* send;
  uint64_t block_bytes;

  /// Into block `to` of the result from block `from_block` of what rank `from` sends.
  void CopyBlock(int to, int from, int from_block) const {
    std::byte* const target = own + static_cast<uint64_t>(to) * block_bytes;
    const std::byte* const source = send[from] + static_cast<uint64_t>(from_block) * block_bytes;
    if (target != source) std::memcpy(target, source, block_bytes);
  }
};

}  // namespace

bool GoesDirectly(const Operation& operation) {
  const bool all_read_all = operation.collective == Collective::kAllReduce ||
                            operation.collective == Collective::kAllToAll;
  return !IsPointToPoint(operation.collective) &&
         !(all_read_all && operation.send == operation.receive);
}

void MakeResultDirectly(const Operation& operation, int rank, int ranks,
                        const std::byte* const* send, const uint64_t* scalars, bool non_temporal) {
  const uint64_t block_bytes = operation.count * DataTypeSize(operation.type);
  const int root = operation.root;
  auto* const own = static_cast<std::byte*>(operation.receive);
  const DirectCopies copies{own, send, block_bytes};
  // Block `block` of every send buffer, reduced in rank order.
  const auto reduce = [&](int block) {
    std::array<const std::byte*, kMaxInlineRanks> inputs;
    const auto n = static_cast<size_t>(ranks);
    for (size_t i = 0; i < n; ++i) inputs[i] = send[i] + static_cast<size_t>(block) * block_bytes;
    Reduce({.type = operation.type,
            .op = operation.op,
            .inputs = {inputs.data(), n},
            .outputs = {&own, 1},
            .count = operation.count,
            .scalars = operation.op == ReduceOperator::kPreMulSum ? std::span(scalars, n)
                                                                  : std::span<const uint64_t>(),
            .divisor = n,
            .non_temporal = non_temporal});
  };
  switch (operation.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return reduce(0);
    case Collective::kReduceScatter: return reduce(rank);
    case Collective::kBroadcast: return copies.CopyBlock(0, root, 0);
    case Collective::kScatter: return copies.CopyBlock(0, root, rank);
    case Collective::kGather:
    case Collective::kAllGather:
      for (int i = 0; i < ranks; ++i) copies.CopyBlock(i, i, 0);
      return;
    case Collective::kAllToAll:
      for (int i = 0; i < ranks; ++i) copies.CopyBlock(i, i, rank);
      return;
    case Collective::kSend:
    case Collective::kReceive: return;  // not collectives
  }
}

}  // namespace harmonaize
