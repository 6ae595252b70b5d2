#include "src/client/operation/window_copy.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "src/base/byte_ranges.h"
#include "src/base/log.h"
#include "src/client/memory/memory.h"
#include "src/client/operation/communicator.h"
#include "src/client/operation/staging.h"
#include "src/client/session/session.h"

namespace harmonaize {
namespace {

/// Bytes that are filled before the daemon is told, and that are carried before the rank looks
/// again: few enough that both begin soon, and enough to outweigh a system call that wakes the
/// other.
constexpr uint64_t kBytesAtOnce = uint64_t{256} << 10;

}  // namespace

WindowCopy::WindowCopy(const Operation& operation, const OperationDescriptor& descriptor)
    : communicator_(operation.communicator),
      send_((descriptor.flags & kSendWindow) != 0 ? static_cast<const std::byte*>(operation.send)
                                                  : nullptr),
      receive_((descriptor.flags & kReceiveWindow) != 0 ? static_cast<std::byte*>(operation.receive)
                                                        : nullptr),
      words_(IsPointToPoint(operation.collective) ? nullptr
                                                  : &communicator_->lane(kCollectiveLane)),
      units_(BlocksOf(operation.collective, operation.communicator->ranks(),
                      operation.communicator->rank(), operation.root)),
      sequence_(descriptor.sequence),
      queue_(&operation.communicator->session().stream_slot(descriptor.stream)),
      position_(descriptor.position),
      element_bytes_(IsPointToPoint(operation.collective) ? 1 : DataTypeSize(operation.type)),
      flags_(descriptor.flags) {
  cut_.unit_bytes = operation.count * DataTypeSize(operation.type);
}

// The words count for another operation once this one has ended. Sequentially consistent, as
// ExpectNews requires; makes the cut and the outputs visible.
uint64_t WindowCopy::Carried() const {
  const uint64_t count = words_->carried.completed.load(std::memory_order_seq_cst);
  if (state_ != State::kAwaitsTurn && !CountsFor(sequence_, count)) return kAllSlices;
  return SlicesOf(sequence_, count);
}

// Sequentially consistent, likewise.
bool WindowCopy::PositionReached() const {
  return queue_->completed.load(std::memory_order_seq_cst) >= position_;
}

uint64_t WindowCopy::RoomToFill() const {
  return std::min(slices_, drained_ + cut_.slots);
}

bool WindowCopy::CanStep() const {
  switch (state_) {
    case State::kAwaitsTurn:
      return words_->carried.completed.load(std::memory_order_seq_cst) >=
                 SliceCount(sequence_, 0) ||
             PositionReached();
    case State::kHasTurn: return true;
    case State::kCopies:
      return filled_ < RoomToFill() || drained_ < std::min(Carried(), slices_) ||
             Carried() == kAllSlices || PositionReached();
    case State::kEnded: return false;
  }
  return false;
}

bool WindowCopy::Step() {
  switch (state_) {
    case State::kAwaitsTurn:
    case State::kHasTurn:
      if (!CanStep()) return false;
      Begin();
      return true;
    case State::kCopies:
      // Filling comes first: until the window is full, the daemon may have nothing to carry.
      if (FillSome() || DrainSome()) return true;
      if (!PositionReached()) return false;
      state_ = State::kEnded;
      return true;
    case State::kEnded: return false;
  }
  return false;
}

// A copy whose slices are all drained waits for the operation's end: the position may have other
// operations.
Session::AwaitedSlices WindowCopy::Awaited() const {
  uint64_t slices = 0;
  if (state_ == State::kCopies) {
    slices = drained_ == slices_ ? kAllSlices : std::min(drained_ + at_once_, slices_);
  }
  return {.carried = &words_->carried,
          .count = SliceCount(sequence_, slices),
          .queue = queue_,
          .position = position_};
}

bool WindowCopy::FillSome() {
  const uint64_t room = RoomToFill();
  if (filled_ >= room) return false;
  const uint64_t until = std::min(room, filled_ + at_once_);
  while (filled_ < until) Fill();
  Publish(filled_, place_);
  return true;
}

bool WindowCopy::DrainSome() {
  const uint64_t carried = Carried();
  // How it ended says its stream. Nothing more is copied before that is known.
  if (carried == kAllSlices) {
    state_ = State::kEnded;
    return true;
  }
  if (drained_ >= carried) return false;
  const uint64_t until = std::min(carried, drained_ + at_once_);
  while (drained_ < until) Drain();
  return true;
}

void WindowCopy::Begin() {
  state_ = State::kEnded;
  // It ended before it began.
  if (Carried() == kAllSlices || PositionReached()) return;
  const uint64_t slice_elements = words_->slice_elements.load(std::memory_order_relaxed);
  cut_.piece_bytes = words_->piece_elements.load(std::memory_order_relaxed) * element_bytes_;
  cut_.pieces = words_->pieces.load(std::memory_order_relaxed);
  cut_.slice_bytes = slice_elements * element_bytes_;
  cut_.slots = words_->slots.load(std::memory_order_relaxed);
  slices_ = words_->slices.load(std::memory_order_relaxed);
  layout_ = LayoutOf(units_, communicator_->rank(), cut_.pieces, flags_);
  cut_.slot_bytes = layout_.SlotBytes(slice_elements, element_bytes_);
  // Half of the window at most, so that one half is filled or drained while the other is carried.
  at_once_ = std::clamp<uint64_t>(kBytesAtOnce / std::max<uint64_t>(cut_.slot_bytes, 1), 1,
                                  std::max<uint64_t>(cut_.slots / 2, 1));
  state_ = State::kCopies;
  if (layout_.blocks == 0 || slices_ == 0) {
    // This rank has nothing to copy, and nobody waits for it.
    filled_ = drained_ = slices_;
    return Publish(slices_, {});
  }
  const Status taken = TakeWindow();
  if (taken.ok()) return;
  if (!communicator_->session().lost()) {
    Log(LogLevel::kWarning, kLogCollective, "no memory to copy through: {}", taken.message());
  }
  // The daemon finds no window there, and fails the operation for all its ranks.
  filled_ = drained_ = slices_;
  Publish(slices_, {});
}

Status WindowCopy::TakeWindow() {
  const uint64_t bytes = cut_.slots * cut_.slot_bytes;
  HZ_ASSIGN_OR_RETURN(const StagingBuffer window, AcquireFor(communicator_->session(), bytes));
  window_ = window.memory;
  place_ = window.reference;
  return Status::Ok();
}

// Once this operation has ended, the words may be another one's, which another thread copies for.
// That one begins only after the end of this one was told, so under the lock, which it takes as
// well, whoever comes first is not overwritten by an earlier operation. The store is sequentially
// consistent, as Nudge requires, and makes the window's place visible.
void WindowCopy::Publish(uint64_t filled, const BufferReference& window) {
  {
    const std::lock_guard lock(communicator_->slice_words());
    if (Carried() == kAllSlices) return;
    words_->window_offset.store(window.offset, std::memory_order_relaxed);
    words_->window_region.store(window.region, std::memory_order_relaxed);
    words_->filled.store(SliceCount(sequence_, filled), std::memory_order_seq_cst);
  }
  communicator_->session().Nudge();
}

void WindowCopy::Fill() {
  if (send_ != nullptr) {
    cut_.ForEachBlock(filled_, units_.send, layout_.send,
                      [this](uint64_t own, uint64_t place, uint64_t bytes) {
                        std::memcpy(window_ + place, send_ + own, bytes);
                      });
  }
  ++filled_;
}

void WindowCopy::Drain() {
  if (receive_ != nullptr) {
    cut_.ForEachBlock(drained_, units_.receive, layout_.receive,
                      [this](uint64_t own, uint64_t place, uint64_t bytes) {
                        std::memcpy(receive_ + own, window_ + place, bytes);
                      });
  }
  ++drained_;
}

void WindowCopy::Finish(bool succeeded) {
  while (succeeded && window_ != nullptr && drained_ < slices_) Drain();
  GiveBack();
  state_ = State::kEnded;
}

bool WindowCopy::WritesTo(const void* address, uint64_t bytes) const {
  if (receive_ == nullptr) return false;
  return Overlap(receive_, units_.receive * cut_.unit_bytes, address, bytes);
}

void WindowCopy::GiveBack() {
  if (window_ == nullptr) return;
  StagingPool::Get().Release(std::exchange(window_, nullptr), cut_.slots * cut_.slot_bytes);
}

}  // namespace harmonaize
