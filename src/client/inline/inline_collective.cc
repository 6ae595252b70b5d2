// Collectives on the inline path: in pieces through the ranks' slots, or directly between buffers.

#include <algorithm>
#include <array>
#include <cstring>

#include "src/client/inline/inline_data.h"
#include "src/client/inline/inline_direct.h"
#include "src/client/inline/inline_operation.h"
#include "src/client/operation/communicator.h"

namespace harmonaize {
namespace {

constexpr uint64_t kCacheLineBytes = 64;

/// In the call word of an operation that goes directly.
constexpr uint64_t kDirectCall = uint64_t{1} << 63;

}  // namespace

// ---------------------------------------------------------------------------------------------
// Through slots

void InlineOperation::StartCollective() {
  if (LocateDirectBuffers()) {
    pieces_ = 2;  // the buffers, and that the share is done
    published_ = 1;
    return;
  }
  const uint64_t element = DataTypeSize(operation_->type);
  const uint64_t bytes = PublishedBytes(*operation_, path_->ranks());
  in_line_ = bytes <= kInlineLineBytes;
  if (bytes <= kInlineSlotBytes) {
    piece_elements_ = operation_->count;
    pieces_ = 1;
  } else {
    // Both buffers of two ranks: beyond the last-level cache the result need not go through it.
    non_temporal_ = 4 * bytes > path_->last_level_cache_bytes();
    const auto blocks =
        static_cast<uint64_t>(PublishedBlocks(operation_->collective, path_->ranks()));
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
  const uint64_t slot = sequence_->slot + piece;
  TakeInSlots(*operation_, *path_, path_->CollectiveAt(slot), slot, in_line_, PieceAt(piece));
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
  line.call.store(line.call.load(std::memory_order_relaxed) | kDirectCall,
                  std::memory_order_relaxed);
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
  PeerMemory& memory = path_->peer_memory();
  memory.Trim();
  const uint64_t block = operation_->count * DataTypeSize(operation_->type);
  for (int i = 0; i < path_->ranks(); ++i) {
    if (i == path_->rank()) {
      send[i] = static_cast<const std::byte*>(operation_->send);
      receive[i] = static_cast<std::byte*>(operation_->receive);
      continue;
    }
    const auto find = [&](uint32_t region, uint64_t offset, uint64_t blocks) -> Result<std::byte*> {
      if (blocks == 0) return nullptr;
      return memory.Find(communicator.session(), communicator.member(), i, region, offset,
                         blocks * block);
    };
    const BufferBlocks blocks =
        BlocksOf(operation_->collective, path_->ranks(), i, operation_->root);
    DirectBuffers buffers;
    std::memcpy(&buffers, rendezvous_.line_of(i).data, sizeof buffers);
    HZ_ASSIGN_OR_RETURN(std::byte* const from,
                        find(buffers.send_region, buffers.send_offset, blocks.send));
    HZ_ASSIGN_OR_RETURN(std::byte* const to,
                        find(buffers.receive_region, buffers.receive_offset, blocks.receive));
    send[i] = from;
    receive[i] = to;
  }
  return Status::Ok();
}

}  // namespace harmonaize
