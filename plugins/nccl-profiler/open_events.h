#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/ipc/profile_record.h"

namespace harmonaize::nccl_abi {

/// What is told of an event when it begins.
struct EventDescription {
  ProfileKind kind = ProfileKind::kGroup;
  ProfileFunction function = ProfileFunction::kNone;
  ProfileAlgorithm algorithm = ProfileAlgorithm::kNone;
  ProfileProtocol protocol = ProfileProtocol::kNone;
  /// Kernels that will tell of themselves; 0: none, or not known. With them the event has ended
  /// when the last of these has.
  uint8_t kernels = 0;
  uint64_t bytes = 0;
  uint64_t timer = 0;      ///< Of a kernel: its beginning by the GPU's clock; 0: not known.
  void* parent = nullptr;  ///< A handle, or NULL. It may be of another process or have ended.
};

/// Who hears of events that have ended.
class EndedEvents {
 public:
  /// Tells of an event; `record.communicator` is the index that Begin was given.
  virtual void Tell(const ProfileRecord& record) noexcept = 0;

 protected:
  ~EndedEvents() = default;
};

/// The events of a process that have begun and not ended, in a fixed pool: nothing is allocated and
/// nobody waits. Thread: any.
///
/// A handle is no address, because NCCL hands handles to other processes and keeps them beyond an
/// event's end. It is a number that tells the place in the pool, the generation of that place, and
/// the function, algorithm and protocol of the event, which events below it have, too. Any number
/// may be passed as a handle: one that stands for no event is ignored.
///
/// A collective ends when its host's calls have stopped and its kernels have ended, which other
/// threads tell. All of that is in one atomic word of the place: the generation, whether the event
/// is open and stopped, how many ends are awaited, and how many kernels use the place now. The
/// exchange that makes an event ended also closes it, so that exactly one thread finishes it.
/// Exchanges are acquire and release: whoever finishes sees what all others have noted before.
class OpenEvents {
 public:
  /// Places. NCCL may have some hundred operations under way, which wait for the GPU, and for one
  /// or two of these a kernel and two proxy operations for each of 64 channels.
  static constexpr uint32_t kMost = 4096;

  explicit OpenEvents(EndedEvents* ended);
  OpenEvents(const OpenEvents&) = delete;
  OpenEvents& operator=(const OpenEvents&) = delete;

  /// Returns the event's handle; NULL if there is no place for it.
  void* Begin(uint16_t communicator, const EventDescription& event, uint64_t now_ns) noexcept;
  /// Ends an event, or the host's part of one with kernels.
  void Stop(void* handle, uint64_t now_ns) noexcept;
  /// Notes what a network transfer has moved so far.
  void SetBytes(void* handle, uint64_t bytes) noexcept;
  /// Notes when a kernel has ended, by the GPU's clock.
  void SetTimer(void* handle, uint64_t timer) noexcept;
  /// Ends all events of a communicator, whatever they wait for.
  void EndAll(uint16_t communicator) noexcept;
  /// Forgets all events, in a forked child, where their threads are gone. Requires: no other
  /// thread.
  void Reset() noexcept;

 private:
  struct alignas(64) Place {
    std::atomic<uint64_t> word{0};
    std::atomic<uint32_t> next{0};
    // Written before anybody has the handle, and read by who has closed the place.
    EventDescription event;
    bool has_pinned = false;  ///< A kernel that uses the place of its operation.
    // Relaxed: they are written before the exchanges of `word` that tell of them, and read after.
    // Who reads one of an event that may end meanwhile finds out by the exchange that comes next.
    std::atomic<uint16_t> communicator{0};
    std::atomic<uint64_t> begin_ns{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> launch_ns{0};
    std::atomic<uint64_t> end_timer{0};
    std::atomic<uint64_t> first_timer{0};
    std::atomic<uint64_t> last_timer{0};
    std::atomic<uint64_t> kernels_ns{0};
    std::atomic<uint64_t> longest_kernel_ns{0};
    std::atomic<uint32_t> kernels_ended{0};
  };

  uint32_t TakePlace(uint64_t now_ns) noexcept;
  uint32_t Pop() noexcept;
  void Push(uint32_t index) noexcept;
  Place* Find(void* handle) noexcept;
  bool Pin(void* handle) noexcept;
  void Unpin(void* handle) noexcept;
  void EndStale(uint64_t now_ns) noexcept;
  void Close(Place* place, uint64_t generation) noexcept;
  void AddKernel(const Place& kernel, uint64_t duration_ns) noexcept;
  void Finish(Place* place) noexcept;
  uint32_t IndexOf(const Place* place) const {
    return static_cast<uint32_t>(place - places_.data());
  }

  EndedEvents* const ended_;
  /// The free places: a stack of 1-based indices through Place::next, with a count of exchanges in
  /// the upper half, so that a place that was taken and came back meanwhile is noticed (Treiber,
  /// 1986).
  alignas(64) std::atomic<uint64_t> free_{0};
  std::atomic<uint64_t> looked_for_stale_ns_{0};
  std::array<Place, kMost> places_;
};

}  // namespace harmonaize::nccl_abi
