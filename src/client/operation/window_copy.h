#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/client/operation/operation.h"
#include "src/ipc/session_segment.h"
#include "src/ipc/window_layout.h"

namespace harmonaize {

/// Copies one collective's private buffers through a window, slice by slice, while the daemon
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

  /// Copies until the operation has ended, or nearly. Errors: those of waiting; the caller asks for
  /// the operation's own outcome.
  Status Run();
  /// Copies some of what can be copied now. Returns whether there was something.
  bool Step();
  /// Copies what is left of the results, if the operation has succeeded, and lets go of the window.
  /// Requires: the operation has ended.
  void Finish(bool succeeded);

 private:
  enum class State { kAwaitsTurn, kCopies, kEnded };

  SliceProgress& progress() const;
  uint64_t Carried() const;
  uint64_t NextAwaited() const;
  bool FillSome();
  bool DrainSome();
  void Begin();
  Status TakeWindow();
  void Publish(uint64_t filled);
  void Fill();
  void Drain();
  void GiveBack();

  Communicator* const communicator_;
  const std::byte* const send_;
  std::byte* const receive_;
  const BufferBlocks units_;
  const uint64_t sequence_;
  const uint64_t element_bytes_;
  const uint8_t flags_;

  State state_ = State::kAwaitsTurn;
  WindowCut cut_;
  WindowLayout layout_;
  uint64_t slices_ = 0;
  uint64_t at_once_ = 1;  // slices
  std::byte* window_ = nullptr;
  uint64_t filled_ = 0;   // slices
  uint64_t drained_ = 0;  // likewise
};

}  // namespace harmonaize
