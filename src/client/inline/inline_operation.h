#pragma once

#include <array>
#include <cstdint>

#include "src/client/inline/inline_data.h"
#include "src/client/inline/inline_path.h"
#include "src/client/inline/rendezvous.h"
#include "src/client/operation/operation.h"
#include "src/ipc/inline_wait.h"

namespace harmonaize {

/// Returns what all ranks must agree on, in one word. For a send or receive only the type counts.
constexpr uint64_t CallWord(const Operation& operation) {
  const auto type = static_cast<uint64_t>(operation.type);
  if (IsPointToPoint(operation.collective)) return type;
  uint64_t word = static_cast<uint64_t>(operation.collective) + 1;
  word = word << 8 | type;
  word = word << 8 | (Reduces(operation.collective) ? static_cast<uint64_t>(operation.op) : 0);
  return word << 32 | (HasRoot(operation.collective) ? static_cast<uint32_t>(operation.root) : 0u);
}

/// Writes what the rank asks for into its line, which is posted afterwards.
inline void WriteLine(const Operation& operation, InlineLine& line) {
  // Relaxed: published by Post.
  line.call.store(CallWord(operation), std::memory_order_relaxed);
  line.count.store(operation.count, std::memory_order_relaxed);
  line.scalar = operation.scalar;
}

/// Computes this rank's part of the result of a piece. It reads what all have published in slot
/// number `slot` or, with `in_line`, in the lines of `place`, where they met for the piece. Slots
/// and lines stay unchanged until all have taken them in.
inline void TakeInSlots(const Operation& operation, const InlinePath& path, const Rendezvous& place,
                        uint64_t slot, bool in_line, const InlinePiece& piece) {
  std::array<const std::byte*, kMaxInlineRanks> slots;
  std::array<uint64_t, kMaxInlineRanks> scalars;
  for (int i = 0; i < path.ranks(); ++i) {
    const InlineLine& line = place.line_of(i);
    const auto index = static_cast<size_t>(i);
    slots[index] = in_line ? line.data : path.SlotOf(i, slot);
    if (operation.op == ReduceOperator::kPreMulSum) scalars[index] = line.scalar;
  }
  TakeInPiece(operation, piece, path.rank(), path.ranks(), slots.data(), scalars.data());
}

/// One operation that a rank tries to carry out on the inline path. Nothing here waits: Advance is
/// called again and again, for all operations of a group in turn, so the order in which ranks
/// started them does not matter.
///
/// A collective goes in pieces. For each one a rank publishes its part of the data in a slot of its
/// own, and once all have done so each takes what it needs from the slots of the others: one copy
/// in, and one reduction or copy out, whatever the collective. Ranks run at most kInlineLookahead
/// pieces ahead, so no rank ever overwrites a slot that another still reads, and no rank says when
/// it has finished reading. A send fills a ring that its receiver drains.
///
/// Larger operations whose send buffers lie in registered memory go directly. The ranks announce
/// where these are, each computes its result from them, and all wait until all have done so. See
/// GoesDirectly in inline_collective.cc.
class InlineOperation {
 public:
  enum class State {
    kWaiting,  ///< Waits for other ranks.
    kDone,
    kOffload,  ///< The ranks have agreed to send the operation to the daemon.
    kFailed,   ///< This rank cannot do its part; see failure().
  };

  /// Requires: InlinePath::Admits the operation, no other operation of the launch uses its
  /// sequence, and `operation` stays where it is.
  explicit InlineOperation(const Operation& operation);

  /// Tells the other ranks that this one goes to the daemon. Called instead of Start.
  static void Decline(const Operation& operation);
  /// Returns the sequence that the operation belongs to.
  static InlinePath::Sequence& SequenceOf(const Operation& operation);

  /// Publishes this rank's data, unless another rank has declined already.
  void Start();
  /// Takes over what TryQuickly has posted. Called instead of Start.
  void Resume();
  State Advance();
  /// Tries to send the operation to the daemon, unless all ranks are there by now; see `state`.
  void Withdraw();

  State state() const { return state_; }
  const Status& failure() const { return failure_; }
  /// Returns a number that grows with every step taken.
  uint64_t progress() const { return published_ + taken_ + (agreed_ ? 1 : 0); }
  /// Returns what the operation waits for. Requires: its state is kWaiting.
  InlineWait Wait() const;
  const Operation& operation() const { return *operation_; }
  InlinePath& path() const { return *path_; }

 private:
  bool Follow(Rendezvous::State state);
  void LeaveInline();
  void Finish();
  void Fail(Status why);

  // inline_collective.cc
  void StartCollective();
  void FollowRoot();
  void CutIntoPieces();
  void GoDirectly();
  void AdvanceCollective();
  InlinePiece PieceAt(uint64_t piece) const;
  void Publish(uint64_t piece);
  void TakeIn(uint64_t piece);
  bool LocateDirectBuffer();
  void AdvanceDirectly();
  Status MakeResult();
  Status FindPeerBuffers(const std::byte** send);

  // inline_transfer.cc
  void StartSend();
  bool LocateSend(uint64_t bytes);
  void AdvanceSend();
  void AdvanceReceive();
  bool FillSlot();
  Status ReceiveDirectly(uint64_t bytes);

  const Operation* operation_;
  InlinePath* path_;
  InlinePath::Sequence* sequence_;
  Rendezvous rendezvous_;
  State state_ = State::kWaiting;
  bool agreed_ = false;
  bool in_line_ = false;       // the data fits beside the flag
  bool direct_ = false;        // between registered buffers
  bool follows_root_ = false;  // the root, which is not this rank, says whether it is direct
  bool non_temporal_ = false;
  Status failure_;
  uint64_t piece_elements_ = 0;
  uint64_t pieces_ = 0;
  uint64_t published_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace harmonaize
