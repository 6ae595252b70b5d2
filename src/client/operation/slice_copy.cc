#include "src/client/operation/slice_copy.h"

#include <algorithm>
#include <cstring>

#include "src/client/operation/communicator.h"
#include "src/client/session/session.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {
namespace {

/// Bytes that are filled before the daemon is told: few enough that it begins soon, and enough to
/// outweigh the system call that may be needed to wake it.
constexpr uint64_t kFilledAtOnce = uint64_t{256} << 10;
/// Least bytes that are drained at once, because each time the rank may have to be woken.
constexpr uint64_t kTakenAtOnce = uint64_t{256} << 10;
/// A larger buffer is drained in this many parts.
constexpr uint64_t kTakenShare = 16;

/// Returns how many slices so many bytes of a buffer are.
uint64_t SlicesIn(uint64_t bytes, const SlicedBuffer& buffer, const SliceSizes& cut) {
  const uint64_t slice = std::max<uint64_t>(buffer.bytes() / std::max<uint64_t>(cut.slices, 1), 1);
  return std::max<uint64_t>(bytes / slice, 1);
}

}  // namespace

void SlicedBuffer::Copy(const SliceSizes& cut, uint64_t first, uint64_t last) const {
  if (to == nullptr) return;
  for (uint64_t unit = 0; unit < units; ++unit) {
    for (uint64_t piece = 0; piece < unit_bytes; piece += cut.piece_bytes) {
      const uint64_t length = std::min(cut.piece_bytes, unit_bytes - piece);
      const uint64_t begin = std::min(length, first * cut.slice_bytes);
      const uint64_t end = std::min(length, last * cut.slice_bytes);
      const uint64_t offset = unit * unit_bytes + piece + begin;
      std::memcpy(to + offset, from + offset, end - begin);
    }
  }
}

Status SliceCopy::Run() {
  HZ_RETURN_IF_ERROR(AwaitSlices(0));
  // The operation failed before it began.
  if (carried_ == kAllSlices) return Status::Ok();
  ReadCut();
  Fill();
  return Drain();
}

// Acquire: makes the cut and the outputs visible.
Status SliceCopy::AwaitSlices(uint64_t slices) {
  Session& session = communicator_->session();
  StreamSlot& carried = session.member_slot(communicator_->member()).progress.carried;
  HZ_RETURN_IF_ERROR(communicator_->AwaitPosition(&carried, SliceCount(sequence_, slices)));
  carried_ = SlicesOf(sequence_, carried.completed.load(std::memory_order_acquire));
  return Status::Ok();
}

void SliceCopy::ReadCut() {
  const SliceProgress& progress =
      communicator_->session().member_slot(communicator_->member()).progress;
  cut_.piece_bytes = progress.piece_elements.load(std::memory_order_relaxed) * element_bytes_;
  cut_.slice_bytes = progress.slice_elements.load(std::memory_order_relaxed) * element_bytes_;
  cut_.slices = progress.slices.load(std::memory_order_relaxed);
}

void SliceCopy::Fill() {
  Session& session = communicator_->session();
  SliceProgress& progress = session.member_slot(communicator_->member()).progress;
  const uint64_t at_once =
      input_.to == nullptr ? cut_.slices : SlicesIn(kFilledAtOnce, input_, cut_);
  for (uint64_t filled = 0; filled < cut_.slices;) {
    const uint64_t next = std::min(cut_.slices, filled + at_once);
    input_.Copy(cut_, filled, next);
    filled = next;
    // Sequentially consistent, as Nudge requires.
    progress.filled.store(SliceCount(sequence_, filled), std::memory_order_seq_cst);
    session.Nudge();
  }
}

Status SliceCopy::Drain() {
  if (output_.to == nullptr) return Status::Ok();
  const uint64_t bytes = std::max(kTakenAtOnce, output_.bytes() / kTakenShare);
  const uint64_t at_once = SlicesIn(bytes, output_, cut_);
  while (copied_ < cut_.slices) {
    HZ_RETURN_IF_ERROR(AwaitSlices(std::min(cut_.slices, copied_ + at_once)));
    // kAllSlices may mean success or failure; the caller finds out which.
    if (carried_ == kAllSlices) return Status::Ok();
    output_.Copy(cut_, copied_, carried_);
    copied_ = carried_;
  }
  return Status::Ok();
}

}  // namespace harmonaize
