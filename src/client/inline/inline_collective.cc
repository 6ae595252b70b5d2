// Collectives on the inline path: in pieces through the ranks' slots, or directly between buffers.

#include <algorithm>
#include <array>
#include <cstring>

#include "src/client/inline/inline_data.h"
#include "src/client/inline/inline_operation.h"
#include "src/client/operation/communicator.h"

namespace harmonaize {
namespace {

constexpr uint64_t kCacheLineBytes = 64;

/// Bit in the call word of an operation that goes directly.
constexpr uint64_t kDirectCall = uint64_t{1} << 63;

/// Returns whether the collective can go between the ranks' buffers without a copy on the way. It
/// cannot where a rank would overwrite what others have yet to read, as in an all-reduce or an
/// all-to-all in place.
bool GoesDirectly(const Operation& operation) {
  const bool all_read_all = operation.collective == Collective::kAllReduce ||
                            operation.collective == Collective::kAllToAll;
  return !IsPointToPoint(operation.collective) &&
         operation.count * DataTypeSize(operation.type) >= LeastDirectBytes(operation.collective) &&
         !(all_read_all && operation.send == operation.receive);
}

/// Returns whether the root alone sends. Its line then tells whether the operation goes directly;
/// in others all ranks have to agree on that.
bool OnlyRootSends(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kScatter;
}

/// InlineLine::scalar of a root that alone sends, if the operation goes directly; otherwise 0.
constexpr uint64_t kDirectFromRoot = 1;

}  // namespace

// ---------------------------------------------------------------------------------------------
// Through slots

void InlineOperation::StartCollective() {
  follows_root_ = GoesDirectly(*operation_) && OnlyRootSends(operation_->collective) &&
                  path_->rank() != operation_->root;
  if (follows_root_) {
    published_ = 1;  // nothing
  } else if (GoesDirectly(*operation_) && LocateDirectBuffer()) {
    GoDirectly();
  } else {
    CutIntoPieces();
    Publish(published_++);
  }
}

// Called once all ranks are there.
void InlineOperation::FollowRoot() {
  if (rendezvous_.line_of(operation_->root).scalar == kDirectFromRoot) {
    GoDirectly();
  } else {
    CutIntoPieces();
  }
}

void InlineOperation::CutIntoPieces() {
  const uint64_t element = DataTypeSize(operation_->type);
  const uint64_t bytes = PublishedBytes(*operation_, path_->ranks());
  in_line_ = bytes <= kInlineLineBytes;
  if (bytes <= kInlineSlotBytes) {
    piece_elements_ = operation_->count;
    pieces_ = 1;
  } else {
    // The result need not go through the cache if both buffers of two ranks exceed the last-level
    // cache.
    non_temporal_ = 4 * bytes > path_->last_level_cache_bytes();
    const auto blocks =
        static_cast<uint64_t>(PublishedBlocks(operation_->collective, path_->ranks()));
    // Blocks begin at cache lines.
    piece_elements_ = kInlineSlotBytes / blocks / kCacheLineBytes * kCacheLineBytes / element;
    pieces_ = (operation_->count + piece_elements_ - 1) / piece_elements_;
  }
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
  const uint64_t slot = sequence_->slot + piece;
  TakeInSlots(*operation_, *path_, path_->CollectiveAt(slot), slot, in_line_, PieceAt(piece));
}

// ---------------------------------------------------------------------------------------------
// Directly

// Returns whether the others can reach what this rank sends; if so, its line then tells where it
// is.
bool InlineOperation::LocateDirectBuffer() {
  const uint64_t block = operation_->count * DataTypeSize(operation_->type);
  const BufferBlocks blocks =
      BlocksOf(operation_->collective, path_->ranks(), path_->rank(), operation_->root);
  DirectBuffer buffer{0, kNoBuffer};
  if (blocks.send > 0) {
    const BufferReference found =
        path_->Locate(operation_->communicator->session(), operation_->send, blocks.send * block);
    if (found.region == kNoBuffer) return false;
    buffer = {found.offset, found.region};
  }
  InlineLine& line = rendezvous_.own_line();
  if (OnlyRootSends(operation_->collective)) {
    line.scalar = kDirectFromRoot;
  } else {
    // The flag in the call word makes all ranks do the same, or leave the operation to the daemon.
    line.call.store(line.call.load(std::memory_order_relaxed) | kDirectCall,
                    std::memory_order_relaxed);
  }
  std::memcpy(line.data, &buffer, sizeof buffer);
  return true;
}

void InlineOperation::GoDirectly() {
  direct_ = true;
  non_temporal_ =
      4 * operation_->count * DataTypeSize(operation_->type) > path_->last_level_cache_bytes();
  pieces_ = 2;  // where the buffers are, and that the results are made
  published_ = 1;
}

void InlineOperation::AdvanceDirectly() {
  if (taken_ == 0) {
    if (Status status = MakeResult(); !status.ok()) return Fail(std::move(status));
    ++taken_;
    path_->CollectiveAt(sequence_->slot + 1).Post(sequence_->ticket + 1);
    path_->Notify();
  }
  if (!path_->CollectiveAt(sequence_->slot + 1).AllHave(sequence_->ticket + 1)) return;
  Finish();
}

Status InlineOperation::MakeResult() {
  const BufferBlocks own =
      BlocksOf(operation_->collective, path_->ranks(), path_->rank(), operation_->root);
  if (own.receive == 0) return Status::Ok();
  std::array<const std::byte*, kMaxInlineRanks> send = {};
  std::array<uint64_t, kMaxInlineRanks> scalars;
  HZ_RETURN_IF_ERROR(FindPeerBuffers(send.data()));
  for (int i = 0; i < path_->ranks(); ++i) {
    scalars[static_cast<size_t>(i)] = rendezvous_.line_of(i).scalar;
  }
  InlinePiece whole = WholePiece(*operation_);
  whole.non_temporal = non_temporal_;
  TakeInPiece(*operation_, whole, path_->rank(), path_->ranks(), send.data(), scalars.data());
  return Status::Ok();
}

Status InlineOperation::FindPeerBuffers(const std::byte** send) {
  Communicator& communicator = *operation_->communicator;
  PeerMemory& memory = path_->peer_memory();
  memory.Trim();
  const uint64_t block = operation_->count * DataTypeSize(operation_->type);
  for (int i = 0; i < path_->ranks(); ++i) {
    if (i == path_->rank()) {
      send[i] = static_cast<const std::byte*>(operation_->send);
      continue;
    }
    const BufferBlocks blocks =
        BlocksOf(operation_->collective, path_->ranks(), i, operation_->root);
    if (blocks.send == 0) continue;
    DirectBuffer buffer;
    std::memcpy(&buffer, rendezvous_.line_of(i).data, sizeof buffer);
    HZ_ASSIGN_OR_RETURN(send[i], memory.Find(communicator.session(), communicator.member(), i,
                                             buffer.region, buffer.offset, blocks.send * block));
  }
  return Status::Ok();
}

}  // namespace harmonaize
