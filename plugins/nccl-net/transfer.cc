#include "plugins/nccl-net/transfer.h"

#include <algorithm>
#include <cstring>

namespace harmonaize::nccl_net {
namespace {

/// Pieces of a message that are under way at once: some MiB, enough to keep a fast link busy.
constexpr size_t kPiecesAtOnce = 8;

// The name of a piece: the tag, the number of the message among those of its tag, and its own.
constexpr int kIndexBits = 12;
constexpr int kNumberBits = 11;
constexpr uint32_t kMostPieces = uint32_t{1} << kIndexBits;

/// The piece that tells how long the message is.
constexpr uint32_t kLengthPiece = 1;

}  // namespace

uint64_t Transfer::NameOf(uint32_t index) const {
  const uint64_t number = name_.number & ((uint32_t{1} << kNumberBits) - 1);
  return uint64_t{static_cast<uint32_t>(name_.tag)} << (kNumberBits + kIndexBits) |
         number << kIndexBits | index;
}

// Requires: the length is known.
uint64_t Transfer::RestPieceBytes() const {
  const uint64_t rest = *total_ - kPieceBytes;
  return std::max(kPieceBytes, rest / (kMostPieces - 2) + 1);
}

Transfer::Piece Transfer::Describe(uint32_t index) const {
  Piece piece;
  piece.index = index;
  if (index == 0) {
    piece.bytes = std::min(data_.bytes, kPieceBytes);
  } else if (index == kLengthPiece) {
    piece.bytes = sizeof(uint64_t);
  } else {
    const uint64_t each = RestPieceBytes();
    piece.offset = kPieceBytes + (index - 2) * each;
    piece.bytes = piece.offset < *total_ ? std::min(each, *total_ - piece.offset) : 0;
  }
  return piece;
}

// A receive waits for what tells how it goes on: whether piece 0 is full, and then the length.
bool Transfer::MayPostNext() const {
  if (under_way_.size() >= kPiecesAtOnce) return false;
  if (next_ == 0) return true;
  if (sends_) {
    return *total_ >= kPieceBytes && (next_ == kLengthPiece || Describe(next_).bytes > 0);
  }
  if (next_ == kLengthPiece) return under_way_.empty() && moved_ == kPieceBytes;
  return total_.has_value() && Describe(next_).bytes > 0;
}

Status Transfer::Advance() {
  // Pieces may end in any order. Those behind one that goes on are taken in later.
  while (!under_way_.empty() && under_way_.front().slot.ended()) {
    const Piece piece = under_way_.front();
    under_way_.pop_front();
    const Status taken = TakeIn(piece);
    Free(piece);
    if (!taken.ok()) return taken;
  }
  while (MayPostNext()) {
    const Status posted = PostNext();
    if (posted.code() == Code::kInProgress) return posted;
    if (!posted.ok()) return posted;
  }
  if (!under_way_.empty() || next_ == 0) return {Code::kInProgress, ""};
  return Status::Ok();
}

Status Transfer::PostNext() {
  Piece piece = Describe(next_);
  HZ_ASSIGN_OR_RETURN(piece.slot, slots_->Take());
  const Status posted = Post(&piece);
  if (!posted.ok()) {
    Free(piece);
    return posted;
  }
  under_way_.push_back(piece);
  ++next_;
  return Status::Ok();
}

Status Transfer::Post(Piece* piece) {
  PipePort::Message message{.sends = sends_,
                            .pipe = pipe_,
                            .name = NameOf(piece->index),
                            .bytes = piece->bytes,
                            .data = data_.place,
                            .outcome = piece->slot.outcome_place};
  message.data.offset += piece->offset;
  if (piece->index == kLengthPiece) {
    message.data = piece->slot.payload_place;
    if (sends_) std::memcpy(piece->slot.payload, &*total_, sizeof *total_);
  } else if (data_.place.region == kNoBuffer && piece->bytes > 0) {
    HZ_ASSIGN_OR_RETURN(const StagingBuffer buffer, AcquireFor(port_->session(), piece->bytes));
    piece->staged = buffer.memory;
    message.data = buffer.reference;
    if (sends_) std::memcpy(buffer.memory, data_.memory + piece->offset, piece->bytes);
  }
  return port_->Post(message);
}

Status Transfer::TakeIn(const Piece& piece) {
  const Code code = piece.slot.code();
  if (code != Code::kOk) return {code, port_->LastFailure()};
  const uint64_t bytes = piece.slot.bytes();
  if (piece.index == kLengthPiece) {
    if (sends_) return Status::Ok();
    uint64_t length = 0;
    std::memcpy(&length, piece.slot.payload, sizeof length);
    if (bytes != sizeof length || length < kPieceBytes || length > data_.bytes) {
      return InvalidUsage("a message of {} bytes came where {} were due at most", length,
                          data_.bytes);
    }
    total_ = length;
    return Status::Ok();
  }
  if (bytes > piece.bytes || (piece.index > 0 && bytes != piece.bytes)) {
    return InternalError("a piece of {} bytes came where {} were due", bytes, piece.bytes);
  }
  if (!sends_ && piece.staged != nullptr) {
    std::memcpy(data_.memory + piece.offset, piece.staged, bytes);
  }
  moved_ += bytes;
  return Status::Ok();
}

void Transfer::Free(const Piece& piece) {
  if (piece.staged != nullptr) StagingPool::Get().Release(piece.staged, piece.bytes);
  slots_->GiveBack(piece.slot);
}

bool Transfer::Abandon() {
  std::erase_if(under_way_, [this](const Piece& piece) {
    if (!piece.slot.ended()) return false;
    Free(piece);
    return true;
  });
  return under_way_.empty();
}

}  // namespace harmonaize::nccl_net
