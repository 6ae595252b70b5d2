#include "plugins/nccl-profiler/open_events.h"

#include <algorithm>

namespace harmonaize::nccl_abi {
namespace {

// The word of a place, from its lowest bit on.
constexpr uint64_t kOneAwaited =
    1;  ///< Ends that are awaited: of the host's calls, and of kernels.
constexpr uint64_t kAwaited = (1 << 11) - 1;
constexpr uint64_t kOneUser = 1 << 11;  ///< Kernels that use the place.
constexpr uint64_t kUsers = uint64_t{(1 << 11) - 1} << 11;
constexpr uint64_t kIsOpen = 1 << 22;
constexpr uint64_t kIsStopped = 1 << 23;
constexpr int kGenerationShift = 24;

// A handle, from its lowest bit on.
constexpr int kIndexBits = 12;
constexpr int kFunctionShift = kIndexBits;
constexpr int kAlgorithmShift = kFunctionShift + 4;
constexpr int kProtocolShift = kAlgorithmShift + 4;
constexpr int kHandleGenerationShift = kProtocolShift + 3;
/// Generations that a place goes through before one comes back: a handle would have to be kept for
/// 2^40 events of one place to stand for another event.
constexpr uint64_t kGenerations = uint64_t{1} << 40;

static_assert(OpenEvents::kMost == 1 << kIndexBits);
static_assert(kHandleGenerationShift + 40 <= 64 && kGenerationShift + 40 <= 64);
static_assert(kProfileFunctionCount <= 1 << 4 && kProfileAlgorithmCount <= 1 << 4 &&
              kProfileProtocolCount <= 1 << 3);
static_assert(sizeof(void*) == sizeof(uint64_t));

/// Age, in nanoseconds, at which an operation whose calls have stopped no longer waits for its
/// kernels. NCCL does not tell of the kernels of every operation.
constexpr uint64_t kStaleNanoseconds = 60'000'000'000;
/// Pause, in nanoseconds, between two looks for such operations, each of which goes through all
/// places.
constexpr uint64_t kStalePauseNanoseconds = 1'000'000'000;

uint64_t NumberOf(void* handle) {
  return reinterpret_cast<uint64_t>(handle);
}

uint64_t GenerationOf(void* handle) {
  return NumberOf(handle) >> kHandleGenerationShift;
}

void* HandleOf(uint32_t index, uint64_t generation, const EventDescription& event) {
  return reinterpret_cast<void*>(generation << kHandleGenerationShift |
                                 static_cast<uint64_t>(event.protocol) << kProtocolShift |
                                 static_cast<uint64_t>(event.algorithm) << kAlgorithmShift |
                                 static_cast<uint64_t>(event.function) << kFunctionShift | index);
}

template <typename Enumeration>
Enumeration PartOf(void* handle, int shift, int bits, int count) {
  const auto value = static_cast<int>(NumberOf(handle) >> shift & ((1u << bits) - 1));
  return value < count ? static_cast<Enumeration>(value) : Enumeration{};
}

/// Takes over what an event has from the one above it. The handle tells it, so that event may have
/// ended, or be in another process.
void Inherit(EventDescription* event) {
  if (event->parent == nullptr || event->function != ProfileFunction::kNone) return;
  event->function =
      PartOf<ProfileFunction>(event->parent, kFunctionShift, 4, kProfileFunctionCount);
  event->algorithm =
      PartOf<ProfileAlgorithm>(event->parent, kAlgorithmShift, 4, kProfileAlgorithmCount);
  event->protocol =
      PartOf<ProfileProtocol>(event->parent, kProtocolShift, 3, kProfileProtocolCount);
}

bool IsOf(uint64_t word, uint64_t generation) {
  return (word & kIsOpen) != 0 && word >> kGenerationShift == generation;
}

/// Returns the word without being open if nothing is awaited any more.
uint64_t ClosedIfDone(uint64_t word) {
  const bool is_done = (word & kIsStopped) != 0 && (word & (kAwaited | kUsers)) == 0;
  return is_done ? word & ~kIsOpen : word;
}

void StoreLeast(std::atomic<uint64_t>* to, uint64_t value) {
  uint64_t now = to->load(std::memory_order_relaxed);
  while (value < now && !to->compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

void StoreMost(std::atomic<uint64_t>* to, uint64_t value) {
  uint64_t now = to->load(std::memory_order_relaxed);
  while (value > now && !to->compare_exchange_weak(now, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

OpenEvents::OpenEvents(EndedEvents* ended) : ended_(ended) {
  Reset();
}

void OpenEvents::Reset() noexcept {
  for (uint32_t i = 0; i < kMost; ++i) {
    Place& place = places_[i];
    const uint64_t generation = place.word.load(std::memory_order_relaxed) >> kGenerationShift;
    place.word.store(generation << kGenerationShift, std::memory_order_relaxed);
    place.next.store(i + 1 < kMost ? i + 2 : 0, std::memory_order_relaxed);
  }
  free_.store(1, std::memory_order_release);
}

// ---------------------------------------------------------------------------------------------
// Free places

/// Returns a 1-based index; 0: there is none.
uint32_t OpenEvents::Pop() noexcept {
  uint64_t top = free_.load(std::memory_order_acquire);
  for (;;) {
    const auto index = static_cast<uint32_t>(top);
    if (index == 0) return 0;
    // The place may be taken and come back meanwhile: then the exchange fails, by the count.
    const uint32_t next = places_[index - 1].next.load(std::memory_order_relaxed);
    const uint64_t count = (top >> 32) + 1;
    if (free_.compare_exchange_weak(top, count << 32 | next, std::memory_order_acquire)) {
      return index;
    }
  }
}

void OpenEvents::Push(uint32_t index) noexcept {
  uint64_t top = free_.load(std::memory_order_relaxed);
  for (;;) {
    places_[index].next.store(static_cast<uint32_t>(top), std::memory_order_relaxed);
    const uint64_t count = (top >> 32) + 1;
    if (free_.compare_exchange_weak(top, count << 32 | (index + 1), std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      return;
    }
  }
}

uint32_t OpenEvents::TakePlace(uint64_t now_ns) noexcept {
  const uint32_t free = Pop();
  if (free != 0) return free;
  uint64_t last = looked_for_stale_ns_.load(std::memory_order_relaxed);
  if (now_ns < last + kStalePauseNanoseconds ||
      !looked_for_stale_ns_.compare_exchange_strong(last, now_ns, std::memory_order_relaxed)) {
    return 0;
  }
  EndStale(now_ns);
  return Pop();
}

// ---------------------------------------------------------------------------------------------
// Events

void* OpenEvents::Begin(uint16_t communicator, const EventDescription& event,
                        uint64_t now_ns) noexcept {
  const uint32_t taken = TakePlace(now_ns);
  if (taken == 0) return nullptr;
  Place& place = places_[taken - 1];
  place.event = event;
  Inherit(&place.event);
  place.communicator.store(communicator, std::memory_order_relaxed);
  place.begin_ns.store(now_ns, std::memory_order_relaxed);
  place.has_pinned = event.kind == ProfileKind::kKernel && Pin(event.parent);
  place.bytes.store(event.bytes, std::memory_order_relaxed);
  place.end_timer.store(0, std::memory_order_relaxed);
  place.first_timer.store(UINT64_MAX, std::memory_order_relaxed);
  place.last_timer.store(0, std::memory_order_relaxed);
  place.kernels_ns.store(0, std::memory_order_relaxed);
  place.longest_kernel_ns.store(0, std::memory_order_relaxed);
  place.kernels_ended.store(0, std::memory_order_relaxed);
  const uint64_t before = place.word.load(std::memory_order_relaxed) >> kGenerationShift;
  const uint64_t generation = std::max<uint64_t>((before + 1) % kGenerations, 1);
  // Release, with the acquire in Find: others may have the handle from here on.
  place.word.store(generation << kGenerationShift | kIsOpen | (kOneAwaited + event.kernels),
                   std::memory_order_release);
  return HandleOf(taken - 1, generation, place.event);
}

OpenEvents::Place* OpenEvents::Find(void* handle) noexcept {
  Place& place = places_[NumberOf(handle) % kMost];
  return IsOf(place.word.load(std::memory_order_acquire), GenerationOf(handle)) ? &place : nullptr;
}

void OpenEvents::Stop(void* handle, uint64_t now_ns) noexcept {
  Place* const place = Find(handle);
  if (place == nullptr) return;
  const uint64_t generation = GenerationOf(handle);
  uint64_t word = place->word.load(std::memory_order_acquire);
  // A second stop of the same event changes nothing.
  if ((word & kIsStopped) != 0) return;
  place->launch_ns.store(now_ns - place->begin_ns.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    if (!IsOf(word, generation) || (word & kIsStopped) != 0) return;
    next = ClosedIfDone((word - kOneAwaited) | kIsStopped);
  } while (!place->word.compare_exchange_weak(word, next, std::memory_order_acq_rel,
                                              std::memory_order_acquire));
  if ((next & kIsOpen) == 0) Finish(place);
}

/// Keeps an event open until Unpin. Returns false if it is not open.
bool OpenEvents::Pin(void* handle) noexcept {
  Place& place = places_[NumberOf(handle) % kMost];
  uint64_t word = place.word.load(std::memory_order_acquire);
  do {
    if (!IsOf(word, GenerationOf(handle)) || (word & kUsers) == kUsers) return false;
  } while (!place.word.compare_exchange_weak(word, word + kOneUser, std::memory_order_acq_rel,
                                             std::memory_order_acquire));
  return true;
}

/// Lets an event go, one of whose kernels has ended.
void OpenEvents::Unpin(void* handle) noexcept {
  Place& place = places_[NumberOf(handle) % kMost];
  uint64_t word = place.word.load(std::memory_order_acquire);
  uint64_t next = 0;
  do {
    // EndAll has ended it meanwhile.
    if (!IsOf(word, GenerationOf(handle)) || (word & kUsers) == 0) return;
    next = word - kOneUser;
    // One end stays for the host's calls. NCCL may tell of more kernels than it said.
    const uint64_t for_calls = (word & kIsStopped) != 0 ? 0 : 1;
    if ((next & kAwaited) > for_calls) next -= kOneAwaited;
    next = ClosedIfDone(next);
  } while (!place.word.compare_exchange_weak(word, next, std::memory_order_acq_rel,
                                             std::memory_order_acquire));
  if ((next & kIsOpen) == 0) Finish(&place);
}

void OpenEvents::SetBytes(void* handle, uint64_t bytes) noexcept {
  Place* const place = Find(handle);
  if (place != nullptr) place->bytes.store(bytes, std::memory_order_relaxed);
}

void OpenEvents::SetTimer(void* handle, uint64_t timer) noexcept {
  Place* const place = Find(handle);
  if (place != nullptr) place->end_timer.store(timer, std::memory_order_relaxed);
}

void OpenEvents::EndAll(uint16_t communicator) noexcept {
  for (Place& place : places_) {
    const uint64_t word = place.word.load(std::memory_order_acquire);
    const bool is_of = place.communicator.load(std::memory_order_relaxed) == communicator;
    if ((word & kIsOpen) != 0 && is_of) Close(&place, word >> kGenerationShift);
  }
}

void OpenEvents::EndStale(uint64_t now_ns) noexcept {
  for (Place& place : places_) {
    const uint64_t word = place.word.load(std::memory_order_acquire);
    const bool waits = (word & kIsOpen) != 0 && (word & kIsStopped) != 0 && (word & kUsers) == 0;
    const uint64_t begin_ns = place.begin_ns.load(std::memory_order_relaxed);
    if (waits && now_ns > begin_ns + kStaleNanoseconds) Close(&place, word >> kGenerationShift);
  }
}

// Ends the event of a generation, unless it has ended by itself. An event whose calls have not
// stopped is dropped, because nobody knows how long it took. What a caller has read of the place
// before is of this generation if the exchange succeeds: the next one writes only once the place
// was closed.
void OpenEvents::Close(Place* place, uint64_t generation) noexcept {
  uint64_t word = place->word.load(std::memory_order_acquire);
  do {
    if (!IsOf(word, generation)) return;
  } while (!place->word.compare_exchange_weak(word, word & ~kIsOpen, std::memory_order_acq_rel,
                                              std::memory_order_acquire));
  if ((word & kIsStopped) != 0) return Finish(place);
  if (place->has_pinned) Unpin(place->event.parent);
  Push(IndexOf(place));
}

// ---------------------------------------------------------------------------------------------
// Ends

void OpenEvents::AddKernel(const Place& kernel, uint64_t duration_ns) noexcept {
  Place& of = places_[NumberOf(kernel.event.parent) % kMost];
  const uint64_t begin = kernel.event.timer;
  StoreLeast(&of.first_timer, begin);
  StoreMost(&of.last_timer, begin + duration_ns);
  StoreMost(&of.longest_kernel_ns, duration_ns);
  of.kernels_ns.fetch_add(duration_ns, std::memory_order_relaxed);
  of.kernels_ended.fetch_add(1, std::memory_order_relaxed);
  Unpin(kernel.event.parent);
}

// Requires: this thread has closed the place, so no other one finishes it.
void OpenEvents::Finish(Place* place) noexcept {
  const EventDescription& event = place->event;
  ProfileRecord record{.kind = event.kind,
                       .function = event.function,
                       .algorithm = event.algorithm,
                       .protocol = event.protocol,
                       .communicator = place->communicator.load(std::memory_order_relaxed),
                       .begin_ns = place->begin_ns.load(std::memory_order_relaxed),
                       .duration_ns = place->launch_ns.load(std::memory_order_relaxed),
                       .bytes = place->bytes.load(std::memory_order_relaxed),
                       .launch_ns = place->launch_ns.load(std::memory_order_relaxed)};
  if (event.kind == ProfileKind::kKernel) {
    const uint64_t end = place->end_timer.load(std::memory_order_relaxed);
    const bool is_timed = event.timer != 0 && end >= event.timer;
    if (is_timed) {
      record.duration_ns = end - event.timer;
      record.flags = kTimedByKernels;
    }
    // The operation's record tells of it, too.
    if (place->has_pinned && is_timed) {
      AddKernel(*place, record.duration_ns);
      Push(IndexOf(place));
      return;
    }
    if (place->has_pinned) Unpin(event.parent);
  }
  const uint32_t ended = place->kernels_ended.load(std::memory_order_relaxed);
  if (ended > 0) {
    const uint64_t first = place->first_timer.load(std::memory_order_relaxed);
    const uint64_t last = place->last_timer.load(std::memory_order_relaxed);
    record.kernels = static_cast<uint8_t>(std::min<uint32_t>(ended, UINT8_MAX));
    record.kernels_ns = place->kernels_ns.load(std::memory_order_relaxed);
    record.longest_kernel_ns = place->longest_kernel_ns.load(std::memory_order_relaxed);
    if (event.kernels > 0 && ended >= event.kernels && last >= first) {
      record.duration_ns = last - first;
      record.flags = kTimedByKernels;
    }
  }
  Push(IndexOf(place));
  ended_->Tell(record);
}

}  // namespace harmonaize::nccl_abi
