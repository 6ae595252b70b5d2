#include "src/client/inline/inline_data.h"

#include <array>
#include <cstring>
#include <span>

#include "src/numerics/reduce.h"

namespace harmonaize {
namespace {

/// The two buffers of a rank and a piece of them, in bytes.
class PieceView {
 public:
  PieceView(const Operation& operation, const InlinePiece& piece)
      : element_(DataTypeSize(operation.type)),
        block_bytes_(operation.count * element_),
        offset_(piece.first_element * element_),
        stride_bytes_(piece.stride * element_),
        bytes_(piece.elements * element_),
        send_(static_cast<const std::byte*>(operation.send)),
        receive_(static_cast<std::byte*>(operation.receive)) {}

  const std::byte* Send(int block) const { return send_ + Offset(block); }
  std::byte* Receive(int block) const { return receive_ + Offset(block); }
  template <typename Byte>
  Byte* Published(Byte* slot, int block) const {
    return slot + static_cast<size_t>(block) * stride_bytes_;
  }
  size_t bytes() const { return bytes_; }

  void Copy(std::byte* to, const std::byte* from) const {
    if (to != from) std::memcpy(to, from, bytes_);
  }

 private:
  size_t Offset(int block) const { return static_cast<size_t>(block) * block_bytes_ + offset_; }

  size_t element_;
  size_t block_bytes_;
  size_t offset_;
  size_t stride_bytes_;
  size_t bytes_;
  const std::byte* send_;
  std::byte* receive_;
};

/// Reduces block `block` of every other rank's slot and of the caller's send buffer into block 0 of
/// the receive buffer, in rank order.
void ReduceSlots(const Operation& operation, const InlinePiece& piece, const PieceView& view,
                 int rank, int ranks, const std::byte* const* slots, const uint64_t* scalars,
                 int block) {
  std::array<const std::byte*, kMaxInlineRanks> inputs;
  for (int i = 0; i < ranks; ++i) {
    inputs[static_cast<size_t>(i)] = i == rank ? view.Send(block) : view.Published(slots[i], block);
  }
  std::byte* const output = view.Receive(0);
  const auto n = static_cast<size_t>(ranks);
  Reduce({.type = operation.type,
          .op = operation.op,
          .inputs = {inputs.data(), n},
          .outputs = {&output, 1},
          .count = piece.elements,
          .scalars = operation.op == ReduceOperator::kPreMulSum ? std::span(scalars, n)
                                                                : std::span<const uint64_t>(),
          .divisor = n,
          .non_temporal = piece.non_temporal});
}

}  // namespace

void PublishPiece(const Operation& operation, const InlinePiece& piece, int rank, int ranks,
                  std::byte* slot) {
  const PieceView view(operation, piece);
  const bool root = rank == operation.root;
  switch (operation.collective) {
    case Collective::kReduce:
    case Collective::kGather:
      if (root) return;
      break;
    case Collective::kBroadcast:
    case Collective::kScatter:
      if (!root) return;
      break;
    default: break;
  }
  const int blocks = PublishedBlocks(operation.collective, ranks);
  if (blocks == 1) return view.Copy(slot, view.Send(0));
  for (int block = 0; block < blocks; ++block) {
    if (block == rank) continue;  // for itself
    view.Copy(view.Published(slot, block), view.Send(block));
  }
}

void TakeInPiece(const Operation& operation, const InlinePiece& piece, int rank, int ranks,
                 const std::byte* const* slots, const uint64_t* scalars) {
  const PieceView view(operation, piece);
  const int root = operation.root;
  switch (operation.collective) {
    case Collective::kAllReduce:
      ReduceSlots(operation, piece, view, rank, ranks, slots, scalars, 0);
      return;
    case Collective::kReduce:
      if (rank == root) ReduceSlots(operation, piece, view, rank, ranks, slots, scalars, 0);
      return;
    case Collective::kReduceScatter:
      ReduceSlots(operation, piece, view, rank, ranks, slots, scalars, rank);
      return;
    case Collective::kBroadcast:
      view.Copy(view.Receive(0), rank == root ? view.Send(0) : slots[root]);
      return;
    case Collective::kScatter:
      view.Copy(view.Receive(0),
                rank == root ? view.Send(root) : view.Published(slots[root], rank));
      return;
    case Collective::kGather:
      if (rank != root) return;
      [[fallthrough]];
    case Collective::kAllGather:
      for (int i = 0; i < ranks; ++i)
        view.Copy(view.Receive(i), i == rank ? view.Send(0) : slots[i]);
      return;
    case Collective::kAllToAll:
      for (int i = 0; i < ranks; ++i) {
        view.Copy(view.Receive(i), i == rank ? view.Send(rank) : view.Published(slots[i], rank));
      }
      return;
    case Collective::kSend:
    case Collective::kReceive: return;  // not collectives
  }
}

}  // namespace harmonaize
