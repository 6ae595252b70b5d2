#include "src/client/inline_operation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/client/communicator.h"
#include "src/client/inline_data.h"
#include "src/client/inline_direct.h"

namespace harmonaize {
namespace {

constexpr uint64_t kCacheLineBytes = 64;

/// In the call word of an operation that goes directly.
constexpr uint64_t kDirectCall = uint64_t{1} << 63;

/// What all ranks must agree on, in one word. Of a pair only the type counts.
uint64_t CallWord(const Operation& operation) {
  const auto type = static_cast<uint64_t>(operation.type);
  if (IsPointToPoint(operation.collective)) return type;
  uint64_t word = static_cast<uint64_t>(operation.collective) + 1;
  word = word << 8 | type;
  word = word << 8 | (Reduces(operation.collective) ? static_cast<uint64_t>(operation.op) : 0);
  return word << 32 | (HasRoot(operation.collective) ? static_cast<uint32_t>(operation.root) : 0u);
}

InlinePath& PathOf(const Operation& operation) {
  return *operation.communicator->inline_path();
}

Rendezvous PlaceOf(const Operation& operation, uint64_t slot) {
  const InlinePath& path = PathOf(operation);
  switch (operation.collective) {
    case Collective::kSend: return path.PairAt(path.rank(), operation.root, slot);
    case Collective::kReceive: return path.PairAt(operation.root, path.rank(), slot);
    default: return path.CollectiveAt(slot);
  }
}

}  // namespace

InlinePath::Sequence& InlineOperation::SequenceOf(const Operation& operation) {
  InlinePath& path = PathOf(operation);
  switch (operation.collective) {
    case Collective::kSend: return path.sends(operation.root);
    case Collective::kReceive: return path.receives(operation.root);
    default: return path.collectives();
  }
}

void InlineOperation::Decline(const Operation& operation) {
  InlinePath::Sequence& sequence = SequenceOf(operation);
  PlaceOf(operation, sequence.slot).Decline(sequence.ticket);
  ++sequence.ticket;
  PathOf(operation).Notify();
}

InlineOperation::InlineOperation(const Operation& operation)
    : operation_(&operation),
      path_(&PathOf(operation)),
      sequence_(&SequenceOf(operation)),
      rendezvous_(PlaceOf(operation, sequence_->slot)) {}

void InlineOperation::Start() {
  if (rendezvous_.Declined(sequence_->ticket)) {
    ++sequence_->ticket;
    state_ = State::kOffload;
    return;
  }
  WriteLine();
  switch (operation_->collective) {
    case Collective::kSend: StartSend(); break;
    case Collective::kReceive: pieces_ = 0; break;  // known once the sender is
    default: StartCollective(); break;
  }
  rendezvous_.Post(sequence_->ticket);
  path_->Notify();
}

void InlineOperation::WriteLine() {
  InlineLine& line = rendezvous_.own_line();
  // Relaxed: published by Post.
  line.call.store(CallWord(*operation_), std::memory_order_relaxed);
  line.count.store(operation_->count, std::memory_order_relaxed);
  line.scalar = operation_->scalar;
}

InlineOperation::State InlineOperation::Advance() {
  if (state_ != State::kWaiting) return state_;
  if (!agreed_ && !Follow(rendezvous_.Poll(sequence_->ticket))) return state_;
  switch (operation_->collective) {
    case Collective::kSend: AdvanceSend(); break;
    case Collective::kReceive: AdvanceReceive(); break;
    default: AdvanceCollective(); break;
  }
  return state_;
}

void InlineOperation::Withdraw() {
  if (state_ != State::kWaiting || agreed_) return;
  Follow(rendezvous_.Withdraw(sequence_->ticket));
  path_->Notify();
}

// Whether the operation goes on inline.
bool InlineOperation::Follow(Rendezvous::State state) {
  switch (state) {
    case Rendezvous::State::kWaiting: return false;
    case Rendezvous::State::kOffload: LeaveInline(); return false;
    case Rendezvous::State::kInline: break;
  }
  if (!rendezvous_.Agree(sequence_->ticket)) {
    // All see the same and do the same, and the daemon tells each what the others asked for.
    rendezvous_.Decline(sequence_->ticket);
    rendezvous_.Leave(sequence_->ticket);
    LeaveInline();
    return false;
  }
  agreed_ = true;
  return true;
}

void InlineOperation::LeaveInline() {
  ++sequence_->ticket;
  state_ = State::kOffload;
}

void InlineOperation::Finish() {
  // The sequence of a pair counts operations, that of the collectives slots.
  const bool pair = IsPointToPoint(operation_->collective);
  sequence_->ticket += pair ? 1 : pieces_;
  sequence_->slot += pair ? 1 : pieces_;
  path_->Count(operation_->count * DataTypeSize(operation_->type));
  state_ = State::kDone;
}

// ---------------------------------------------------------------------------------------------
// Collectives

void InlineOperation::StartCollective() {
  if (LocateDirectBuffers()) {
    pieces_ = 2;  // the buffers, and that the share is done
    published_ = 1;
    return;
  }
  const uint64_t element = DataTypeSize(operation_->type);
  const auto blocks =
      static_cast<uint64_t>(PublishedBlocks(operation_->collective, path_->ranks()));
  const uint64_t bytes = operation_->count * element * blocks;
  in_line_ = bytes <= kInlineLineBytes;
  if (bytes <= kInlineSlotBytes) {
    piece_elements_ = operation_->count;
    pieces_ = 1;
  } else {
    // Both buffers of two ranks: beyond the last-level cache the result need not go through it.
    non_temporal_ = 4 * bytes > path_->last_level_cache_bytes();
    // Blocks begin at cache lines.
    piece_elements_ = kInlineSlotBytes / blocks / kCacheLineBytes * kCacheLineBytes / element;
    pieces_ = (operation_->count + piece_elements_ - 1) / piece_elements_;
  }
  Publish(published_++);
}

void InlineOperation::AdvanceCollective() {
  if (direct_) return AdvanceDirectly();
  while (taken_ < pieces_) {
    if (published_ < pieces_ && published_ <= taken_ + kInlineLookahead) {
      const uint64_t piece = published_++;
      Publish(piece);
      Rendezvous place = path_->CollectiveAt(sequence_->slot + piece);
      place.own_line().scalar = operation_->scalar;
      place.Post(sequence_->ticket + piece);
      path_->Notify();
      continue;
    }
    if (taken_ > 0 &&
        !path_->CollectiveAt(sequence_->slot + taken_).AllHave(sequence_->ticket + taken_)) {
      return;
    }
    TakeIn(taken_++);
  }
  Finish();
}

InlinePiece InlineOperation::PieceAt(uint64_t piece) const {
  const uint64_t first = piece * piece_elements_;
  return {first, std::min(piece_elements_, operation_->count - first), piece_elements_,
          non_temporal_};
}

void InlineOperation::Publish(uint64_t piece) {
  if (operation_->count == 0) return;
  std::byte* const slot = in_line_ ? rendezvous_.own_line().data
                                   : path_->SlotOf(path_->rank(), sequence_->slot + piece);
  PublishPiece(*operation_, PieceAt(piece), path_->rank(), path_->ranks(), slot);
}

void InlineOperation::TakeIn(uint64_t piece) {
  if (operation_->count == 0) return;
  std::array<const std::byte*, kMaxInlineRanks> slots;
  std::array<uint64_t, kMaxInlineRanks> scalars;
  // The line of the piece, like its slot, is left alone until all have taken it in.
  const Rendezvous place = path_->CollectiveAt(sequence_->slot + piece);
  for (int i = 0; i < path_->ranks(); ++i) {
    const InlineLine& line = place.line_of(i);
    const auto index = static_cast<size_t>(i);
    slots[index] = in_line_ ? line.data : path_->SlotOf(i, sequence_->slot + piece);
    if (operation_->op == ReduceOperator::kPreMulSum) scalars[index] = line.scalar;
  }
  TakeInPiece(*operation_, PieceAt(piece), path_->rank(), path_->ranks(), slots.data(),
              scalars.data());
}

// ---------------------------------------------------------------------------------------------
// Directly

// Whether all buffers of this rank can be reached by the others; then the line tells where they
// are.
bool InlineOperation::LocateDirectBuffers() {
  const uint64_t block = operation_->count * DataTypeSize(operation_->type);
  if (block < LeastDirectBytes(operation_->collective) || !GoesDirectly(*operation_)) return false;
  const BufferBlocks blocks =
      BlocksOf(operation_->collective, path_->ranks(), path_->rank(), operation_->root);
  DirectBuffers buffers{0, 0, kNoBuffer, kNoBuffer};
  const auto locate = [&](const void* address, uint64_t bytes, uint64_t* offset, uint32_t* region) {
    if (bytes == 0) return true;
    const BufferReference found =
        path_->Locate(operation_->communicator->session(), address, bytes);
    *offset = found.offset;
    *region = found.region;
    return found.region != kNoBuffer;
  };
  if (!locate(operation_->send, blocks.send * block, &buffers.send_offset, &buffers.send_region) ||
      !locate(operation_->receive, blocks.receive * block, &buffers.receive_offset,
              &buffers.receive_region)) {
    return false;
  }
  InlineLine& line = rendezvous_.own_line();
  // All must do the same, or leave it to the daemon.
  line.call.store(CallWord(*operation_) | kDirectCall, std::memory_order_relaxed);
  std::memcpy(line.data, &buffers, sizeof buffers);
  direct_ = true;
  non_temporal_ = 4 * block > path_->last_level_cache_bytes();
  return true;
}

void InlineOperation::AdvanceDirectly() {
  if (taken_ == 0) {
    if (Status status = DoShare(); !status.ok()) return Fail(std::move(status));
    ++taken_;
    path_->CollectiveAt(sequence_->slot + 1).Post(sequence_->ticket + 1);
    path_->Notify();
  }
  if (!path_->CollectiveAt(sequence_->slot + 1).AllHave(sequence_->ticket + 1)) return;
  Finish();
}

Status InlineOperation::DoShare() {
  std::array<const std::byte*, kMaxInlineRanks> send = {};
  std::array<std::byte*, kMaxInlineRanks> receive = {};
  std::array<uint64_t, kMaxInlineRanks> scalars;
  HZ_RETURN_IF_ERROR(FindPeerBuffers(send.data(), receive.data()));
  for (int i = 0; i < path_->ranks(); ++i) {
    scalars[static_cast<size_t>(i)] = rendezvous_.line_of(i).scalar;
  }
  DoDirectShare(*operation_, path_->rank(), path_->ranks(), send.data(), receive.data(),
                scalars.data(), non_temporal_);
  return Status::Ok();
}

Status InlineOperation::FindPeerBuffers(const std::byte** send, std::byte** receive) {
  Communicator& communicator = *operation_->communicator;
  const uint64_t block = operation_->count * DataTypeSize(operation_->type);
  path_->peer_memory().Trim();
  for (int i = 0; i < path_->ranks(); ++i) {
    if (i == path_->rank()) {
      send[i] = static_cast<const std::byte*>(operation_->send);
      receive[i] = static_cast<std::byte*>(operation_->receive);
      continue;
    }
    const BufferBlocks blocks =
        BlocksOf(operation_->collective, path_->ranks(), i, operation_->root);
    DirectBuffers buffers;
    std::memcpy(&buffers, rendezvous_.line_of(i).data, sizeof buffers);
    if (blocks.send > 0) {
      Result<std::byte*> found =
          path_->peer_memory().Find(communicator.session(), communicator.member(), i,
                                    buffers.send_region, buffers.send_offset, blocks.send * block);
      if (!found.ok()) return found.status();
      send[i] = *found;
    }
    if (blocks.receive > 0) {
      Result<std::byte*> found = path_->peer_memory().Find(
          communicator.session(), communicator.member(), i, buffers.receive_region,
          buffers.receive_offset, blocks.receive * block);
      if (!found.ok()) return found.status();
      receive[i] = *found;
    }
  }
  return Status::Ok();
}

void InlineOperation::Fail(Status why) {
  failure_ = std::move(why);
  state_ = State::kFailed;
}

// ---------------------------------------------------------------------------------------------
// Pairs

// The first piece travels with the line, or lies in the first slot when the line is posted.
void InlineOperation::StartSend() {
  const uint64_t bytes = operation_->count * DataTypeSize(operation_->type);
  InlineLine& line = rendezvous_.own_line();
  in_line_ = bytes <= kInlineLineBytes;
  pieces_ = in_line_ ? 0 : (bytes + kInlinePairSlotBytes - 1) / kInlinePairSlotBytes;
  line.scalar = kSendInRing;
  if (in_line_) {
    if (bytes > 0) std::memcpy(line.data, operation_->send, bytes);
    return;
  }
  if (LocateSend(bytes)) return;
  // The ring is empty but for what the receiver of the operation before has not said yet.
  if (FillSlot()) line.scalar = kSendInRingFirstFilled;
}

// A send from registered memory takes a slot of the ring that nobody fills: the receiver drains it
// when it has copied the data.
bool InlineOperation::LocateSend(uint64_t bytes) {
  if (bytes < kLeastDirectBytes) return false;
  const BufferReference found =
      path_->Locate(operation_->communicator->session(), operation_->send, bytes);
  if (found.region == kNoBuffer) return false;
  const DirectBuffers buffers{found.offset, 0, found.region, kNoBuffer};
  InlineLine& line = rendezvous_.own_line();
  std::memcpy(line.data, &buffers, sizeof buffers);
  line.scalar = kSendDirectly;
  direct_ = true;
  pieces_ = 1;
  return true;
}

Status InlineOperation::ReceiveDirectly(uint64_t bytes) {
  Communicator& communicator = *operation_->communicator;
  DirectBuffers buffers;
  std::memcpy(&buffers, rendezvous_.line_of(0).data, sizeof buffers);
  path_->peer_memory().Trim();
  const Result<std::byte*> from =
      path_->peer_memory().Find(communicator.session(), communicator.member(), operation_->root,
                                buffers.send_region, buffers.send_offset, bytes);
  if (!from.ok()) return from.status();
  std::memcpy(operation_->receive, *from, bytes);
  return Status::Ok();
}

// Copies the next piece into the ring, if there is room.
bool InlineOperation::FillSlot() {
  const InlinePair& pair = path_->Pair(path_->rank(), operation_->root);
  const uint64_t slot = sequence_->ring + published_;
  // Acquire: the receiver has read what the slot held.
  if (slot - pair.drained.load(std::memory_order_acquire) >= kInlinePairSlots) return false;
  const uint64_t bytes = operation_->count * DataTypeSize(operation_->type);
  const uint64_t first = published_ * kInlinePairSlotBytes;
  std::memcpy(path_->PairSlot(path_->rank(), operation_->root, slot),
              static_cast<const std::byte*>(operation_->send) + first,
              std::min(kInlinePairSlotBytes, bytes - first));
  ++published_;
  return true;
}

void InlineOperation::AdvanceSend() {
  InlinePair& pair = path_->Pair(path_->rank(), operation_->root);
  if (direct_) {
    // Acquire: the receiver has read all of it.
    if (pair.drained.load(std::memory_order_acquire) <= sequence_->ring) return;
    sequence_->ring += 1;
    Finish();
    return;
  }
  bool filled = false;
  while (published_ < pieces_ && FillSlot()) {
    pair.filled.store(sequence_->ring + published_, std::memory_order_release);
    filled = true;
  }
  if (filled) path_->Notify();
  if (published_ < pieces_) return;
  sequence_->ring += pieces_;
  Finish();
}

void InlineOperation::AdvanceReceive() {
  InlinePair& pair = path_->Pair(operation_->root, path_->rank());
  const InlineLine& line = rendezvous_.line_of(0);
  const uint64_t bytes = operation_->count * DataTypeSize(operation_->type);
  auto* const to = static_cast<std::byte*>(operation_->receive);
  if (bytes <= kInlineLineBytes) {
    if (bytes > 0) std::memcpy(to, line.data, bytes);
    Finish();
    return;
  }
  if (line.scalar == kSendDirectly) {
    if (Status status = ReceiveDirectly(bytes); !status.ok()) return Fail(std::move(status));
    pair.drained.store(++sequence_->ring, std::memory_order_release);
    path_->Notify();
    Finish();
    return;
  }
  pieces_ = (bytes + kInlinePairSlotBytes - 1) / kInlinePairSlotBytes;
  while (taken_ < pieces_) {
    const uint64_t slot = sequence_->ring + taken_;
    const bool came_with_line = taken_ == 0 && line.scalar == kSendInRingFirstFilled;
    if (!came_with_line && pair.filled.load(std::memory_order_acquire) <= slot) return;
    const uint64_t first = taken_ * kInlinePairSlotBytes;
    std::memcpy(to + first, path_->PairSlot(operation_->root, path_->rank(), slot),
                std::min(kInlinePairSlotBytes, bytes - first));
    ++taken_;
    pair.drained.store(slot + 1, std::memory_order_release);
    path_->Notify();
  }
  sequence_->ring += pieces_;
  Finish();
}

}  // namespace harmonaize
