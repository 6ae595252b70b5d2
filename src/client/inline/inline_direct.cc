#include "src/client/inline/inline_direct.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "src/ipc/inline_segment.h"
#include "src/numerics/reduce.h"

namespace harmonaize {
namespace {

constexpr uint64_t kCacheLineBytes = 64;

/// One operation's buffers, by rank, and its sizes.
struct DirectShare {
  const Operation& operation;
  int rank;
  int ranks;
  const std::byte* const* send;
  std::byte* const* receive;
  const uint64_t* scalars;
  bool non_temporal;

  uint64_t element() const { return DataTypeSize(operation.type); }
  uint64_t block() const { return operation.count * element(); }

  /// `elements` elements from byte `offset` of every send buffer, reduced in rank order.
  void Reduce(uint64_t offset, uint64_t elements, std::span<std::byte* const> outputs) const {
    std::array<const std::byte*, kMaxInlineRanks> inputs;
    const auto n = static_cast<size_t>(ranks);
    for (size_t i = 0; i < n; ++i) inputs[i] = send[i] + offset;
    harmonaize::Reduce({.type = operation.type,
                        .op = operation.op,
                        .inputs = {inputs.data(), n},
                        .outputs = outputs,
                        .count = elements,
                        .scalars = operation.op == ReduceOperator::kPreMulSum
                                       ? std::span(scalars, n)
                                       : std::span<const uint64_t>(),
                        .divisor = n,
                        .non_temporal = non_temporal});
  }

  /// This rank's part of the elements: results of all ranks `to` (or of the root alone).
  void ReduceEvenly(bool to_all) const {
    // At cache lines, so that no two ranks write to one.
    const uint64_t per_line = std::max<uint64_t>(1, kCacheLineBytes / element());
    const uint64_t lines = (operation.count + per_line - 1) / per_line;
    const auto n = static_cast<uint64_t>(ranks);
    const auto self = static_cast<uint64_t>(rank);
    const uint64_t first = std::min(operation.count, lines * self / n * per_line);
    const uint64_t end = std::min(operation.count, lines * (self + 1) / n * per_line);
    if (first >= end) return;
    std::array<std::byte*, kMaxInlineRanks> outputs;
    size_t used = 0;
    for (int i = 0; i < ranks; ++i) {
      if (to_all || i == operation.root) outputs[used++] = receive[i] + first * element();
    }
    Reduce(first * element(), end - first, {outputs.data(), used});
  }

  /// Into block `to_block` of `to` from block `from_block` of `from`.
  void CopyBlock(std::byte* to, int to_block, const std::byte* from, int from_block) const {
    std::byte* const target = to + static_cast<uint64_t>(to_block) * block();
    const std::byte* const source = from + static_cast<uint64_t>(from_block) * block();
    if (target != source) std::memcpy(target, source, block());
  }
};

}  // namespace

bool GoesDirectly(const Operation& operation) {
  return !IsPointToPoint(operation.collective) &&
         (operation.collective != Collective::kAllToAll || operation.send != operation.receive);
}

void DoDirectShare(const Operation& operation, int rank, int ranks, const std::byte* const* send,
                   std::byte* const* receive, const uint64_t* scalars, bool non_temporal) {
  const DirectShare share{operation, rank, ranks, send, receive, scalars, non_temporal};
  const int root = operation.root;
  std::byte* const own = receive[rank];
  switch (operation.collective) {
    case Collective::kAllReduce: share.ReduceEvenly(true); return;
    case Collective::kReduce: share.ReduceEvenly(false); return;
    case Collective::kReduceScatter:
      share.Reduce(static_cast<uint64_t>(rank) * share.block(), operation.count, {&own, 1});
      return;
    case Collective::kBroadcast: share.CopyBlock(own, 0, send[root], 0); return;
    case Collective::kScatter: share.CopyBlock(own, 0, send[root], rank); return;
    case Collective::kGather: share.CopyBlock(receive[root], rank, send[rank], 0); return;
    case Collective::kAllGather:
      for (int i = 0; i < ranks; ++i) share.CopyBlock(own, i, send[i], 0);
      return;
    case Collective::kAllToAll:
      for (int i = 0; i < ranks; ++i) share.CopyBlock(own, i, send[i], rank);
      return;
    case Collective::kSend:
    case Collective::kReceive: return;  // not collectives
  }
}

}  // namespace harmonaize
