#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/client/operation/operation.h"
#include "src/client/session/session.h"
#include "src/ipc/session_segment.h"
#include "src/ipc/window_layout.h"

namespace harmonaize {

/// Copies one operation's private buffers through a window, slice by slice, while the daemon
/// carries other slices: SliceProgress. The window is taken when the daemon begins the operation.
/// Thread: one at a time.
class WindowCopy {
 public:
  /// Copies for an operation that `descriptor` posts. Requires: the descriptor tells of windows
  /// (OperationFlags), and the operation's buffers and communicator stay until Finish.
  WindowCopy(const Operation& operation, const OperationDescriptor& descriptor);
  WindowCopy(const WindowCopy&) = delete;
  WindowCopy& operator=(const WindowCopy&) = delete;
  ~WindowCopy() { GiveBack(); }

  /// Sets the words that tell of a send or a receive. Requires: they count for it (CountsFor), and
  /// Step was not called before.
  void SetLane(SliceProgress* lane) {
    words_ = lane;
    state_ = State::kHasTurn;
  }
  uint64_t sequence() const { return sequence_; }

  /// Copies some of what can be copied now, or notices that the operation has ended. Returns
  /// whether there was something. Never waits for others.
  bool Step();
  /// Returns whether Step would find something to do. Requires, as Step does: a send or a receive
  /// has been given its lane.
  bool CanStep() const;
  /// Returns whether Step has noticed the operation's end.
  bool ended() const { return state_ == State::kEnded; }
  /// Returns what to wait for when Step has found nothing to do.
  Session::AwaitedSlices Awaited() const;
  /// Copies what is left of the results, if the operation has succeeded, and lets go of the window.
  /// Requires: the operation has ended.
  void Finish(bool succeeded);

  /// Returns whether results that are still to come lie within these bytes.
  bool WritesTo(const void* address, uint64_t bytes) const;

 private:
  /// kHasTurn: the daemon has begun the operation, and its words have not been read yet.
  enum class State { kAwaitsTurn, kHasTurn, kCopies, kEnded };

  uint64_t Carried() const;
  uint64_t RoomToFill() const;
  bool PositionReached() const;
  bool FillSome();
  bool DrainSome();
  void Begin();
  Status TakeWindow();
  void Publish(uint64_t filled, const BufferReference& window);
  void Fill();
  void Drain();
  void GiveBack();

  Communicator* const communicator_;
  const std::byte* const send_;
  std::byte* const receive_;
  SliceProgress* words_;
  const BufferBlocks units_;
  const uint64_t sequence_;
  StreamSlot* const queue_;
  const uint64_t position_;
  const uint64_t element_bytes_;
  const uint8_t flags_;

  State state_ = State::kAwaitsTurn;
  WindowCut cut_;
  WindowLayout layout_;
  uint64_t slices_ = 0;
  uint64_t at_once_ = 1;  // slices
  std::byte* window_ = nullptr;
  BufferReference place_;  // of the window
  uint64_t filled_ = 0;    // slices
  uint64_t drained_ = 0;   // likewise
};

}  // namespace harmonaize
