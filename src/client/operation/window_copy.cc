#include "src/client/operation/window_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

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
      units_(BlocksOf(operation.collective, operation.communicator->ranks(),
                      operation.communicator->rank(), operation.root)),
      sequence_(descriptor.sequence),
      element_bytes_(DataTypeSize(operation.type)),
      flags_(descriptor.flags) {
  cut_.unit_bytes = operation.count * element_bytes_;
}

SliceProgress& WindowCopy::progress() const {
  return communicator_->session().member_slot(communicator_->member()).progress;
}

// Acquire: makes the cut and the outputs visible.
uint64_t WindowCopy::Carried() const {
  return SlicesOf(sequence_, progress().carried.completed.load(std::memory_order_acquire));
}

Status WindowCopy::Run() {
  while (state_ != State::kEnded) {
    if (Step()) continue;
    if (state_ == State::kEnded || (state_ == State::kCopies && drained_ == slices_)) break;
    const uint64_t awaited = SliceCount(sequence_, NextAwaited());
    HZ_RETURN_IF_ERROR(communicator_->AwaitPosition(&progress().carried, awaited));
  }
  return Status::Ok();
}

// Requires: there is nothing to fill or to drain now.
uint64_t WindowCopy::NextAwaited() const {
  if (state_ == State::kAwaitsTurn) return 0;
  return std::min(drained_ + at_once_, slices_);
}

bool WindowCopy::Step() {
  if (state_ == State::kAwaitsTurn) {
    const uint64_t count = progress().carried.completed.load(std::memory_order_acquire);
    if (count < SliceCount(sequence_, 0)) return false;
    Begin();
    return true;
  }
  if (state_ == State::kEnded) return false;
  // Filling comes first: until the window is full, the daemon may have nothing to carry.
  return FillSome() || DrainSome();
}

bool WindowCopy::FillSome() {
  const uint64_t room = std::min(slices_, drained_ + cut_.slots);
  if (filled_ >= room) return false;
  const uint64_t until = std::min(room, filled_ + at_once_);
  while (filled_ < until) Fill();
  Publish(filled_);
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
  if (Carried() == kAllSlices) return;  // it failed before it began
  const SliceProgress& words = progress();
  const uint64_t slice_elements = words.slice_elements.load(std::memory_order_relaxed);
  cut_.piece_bytes = words.piece_elements.load(std::memory_order_relaxed) * element_bytes_;
  cut_.pieces = words.pieces.load(std::memory_order_relaxed);
  cut_.slice_bytes = slice_elements * element_bytes_;
  cut_.slots = words.slots.load(std::memory_order_relaxed);
  slices_ = words.slices.load(std::memory_order_relaxed);
  layout_ = LayoutOf(units_, communicator_->rank(), cut_.pieces, flags_);
  cut_.slot_bytes = layout_.SlotBytes(slice_elements, element_bytes_);
  // Half of the window at most, so that one half is filled or drained while the other is carried.
  at_once_ = std::clamp<uint64_t>(kBytesAtOnce / std::max<uint64_t>(cut_.slot_bytes, 1), 1,
                                  std::max<uint64_t>(cut_.slots / 2, 1));
  state_ = State::kCopies;
  if (layout_.blocks == 0 || slices_ == 0) {
    // This rank has nothing to copy, and nobody waits for it.
    filled_ = drained_ = slices_;
    return Publish(slices_);
  }
  const Status taken = TakeWindow();
  if (taken.ok()) return;
  Log(LogLevel::kWarning, kLogCollective, "no memory to copy through: {}", taken.message());
  // The daemon finds no window there, and fails the operation for all its ranks.
  progress().window_region.store(kNoBuffer, std::memory_order_relaxed);
  filled_ = drained_ = slices_;
  Publish(slices_);
}

Status WindowCopy::TakeWindow() {
  const uint64_t bytes = cut_.slots * cut_.slot_bytes;
  HZ_ASSIGN_OR_RETURN(std::byte * window, StagingPool::Get().Acquire(bytes));
  Result<BufferReference> found =
      RegionTable::Get().Locate(communicator_->session(), window, bytes);
  if (found.ok() && found->region == kNoBuffer) {
    // It is of an earlier session, and its descriptor was closed since: it is of no more use.
    return TakeWindow();
  }
  if (!found.ok()) {
    StagingPool::Get().Release(window, bytes);
    return found.status();
  }
  window_ = window;
  // Publish makes these visible.
  progress().window_offset.store(found->offset, std::memory_order_relaxed);
  progress().window_region.store(found->region, std::memory_order_relaxed);
  return Status::Ok();
}

// Sequentially consistent, as Nudge requires.
void WindowCopy::Publish(uint64_t filled) {
  progress().filled.store(SliceCount(sequence_, filled), std::memory_order_seq_cst);
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

void WindowCopy::GiveBack() {
  if (window_ == nullptr) return;
  StagingPool::Get().Release(std::exchange(window_, nullptr), cut_.slots * cut_.slot_bytes);
}

}  // namespace harmonaize
