#include "plugins/nccl-profiler/profiler.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>
#include <string>

#include "plugins/nccl-abi/communicator_of_thread.h"
#include "plugins/nccl-profiler/telemetry.h"
#include "src/base/clock.h"
#include "src/ipc/messages.h"

namespace harmonaize::nccl_abi {
namespace {

/// A communicator, as NCCL tells of it. A context is never freed, so that a late call finds it.
struct Context {
  /// Where its events go. Release, with the acquire of those who read it: the rest is set before.
  /// NULL while no communicator has the context.
  std::atomic<ProfileRing*> ring{nullptr};
  std::atomic<uint32_t> events{0};
  /// Whether the daemon was told which communicator this is.
  std::atomic<bool> announced{false};
  std::atomic<uint64_t> id{0};
  std::mutex mutex;  // guards `description`; taken when it is told or set, not for each event
  ProfiledCommunicator description;
};

/// Everything that the plugin has in a process that a daemon listens to.
class Profiler final : public EndedEvents {
 public:
  void Init(const CommunicatorDescription& communicator, uint32_t known, void** context, int* mask);
  void Tell(const ProfileRecord& record) noexcept override;
  void TellCommunicator(Context* context, uint64_t id, const char* name) noexcept;
  void Finalize(Context* context) noexcept;
  void AfterFork() noexcept;

  /// Returns the context that a pointer of NCCL's points to; nullptr if it is none.
  Context* ContextAt(void* pointer) noexcept {
    auto* const context = static_cast<Context*>(pointer);
    const auto offset =
        reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(contexts_.data());
    return offset < sizeof contexts_ && offset % sizeof(Context) == 0 ? context : nullptr;
  }
  uint16_t IndexOf(const Context* context) const {
    return static_cast<uint16_t>(context - contexts_.data());
  }
  OpenEvents& events() { return events_; }

 private:
  Context* TakeContext();
  uint32_t EventsInUse() const;
  bool Announce(Context* context, ProfileRing* ring) noexcept;

  std::array<Context, kMostProfiledCommunicators> contexts_;
  OpenEvents events_{this};
  Telemetry* telemetry_ = nullptr;  // guarded by init_mutex; nullptr until it is needed
};

std::mutex init_mutex;
/// Made by the first communicator that a daemon wants to hear of, and never destroyed: threads of
/// NCCL's may call until the process ends. Release and acquire, as any object that is handed over.
std::atomic<Profiler*> made{nullptr};

Profiler* Made() noexcept {
  return made.load(std::memory_order_acquire);
}

void ForgetAfterFork() {
  new (&init_mutex) std::mutex();
  if (Profiler* const profiler = Made()) profiler->AfterFork();
}

/// Returns the events with those whose handles NCCL needs for them: steps belong to a proxy's
/// operation, and the work of copy engines to their collective; up to version 3 everything belongs
/// to a group.
uint32_t WithParents(uint32_t events) {
  if ((events & kProfileProxySteps) != 0) events |= kProfileProxyOperations;
  if ((events & (kProfileCopySyncs | kProfileCopyBatches)) != 0) events |= kProfileCopyCollectives;
  return events == 0 ? 0 : events | kProfileGroups;
}

void Profiler::Init(const CommunicatorDescription& communicator, uint32_t known, void** context,
                    int* mask) {
  if (telemetry_ == nullptr) telemetry_ = new Telemetry();
  const Result<Telemetry::Way> way = telemetry_->Open(communicator.id);
  if (!way.ok()) {
    Log(LogLevel::kInfo, kLogOfProfile, "no daemon hears of profiler events: {}",
        way.status().message());
  }
  const uint32_t events = way.ok() ? WithParents(way->events & known) & known : 0;
  Context* const taken = events == 0 ? nullptr : TakeContext();
  if (taken != nullptr) {
    const std::lock_guard lock(taken->mutex);
    taken->description = {.communicator = IndexOf(taken),
                          .id = communicator.id,
                          .ranks = communicator.ranks,
                          .rank = communicator.rank,
                          .hosts = communicator.hosts};
    if (communicator.name != nullptr) SetFieldText(taken->description.name, communicator.name);
    taken->id.store(communicator.id, std::memory_order_relaxed);
    taken->announced.store(false, std::memory_order_relaxed);
    taken->events.store(events, std::memory_order_relaxed);
    taken->ring.store(way->ring, std::memory_order_release);
    *context = taken;
  }
  // NCCL has one mask for all communicators.
  *mask = static_cast<int>(EventsInUse() & known);
}

Context* Profiler::TakeContext() {
  for (Context& context : contexts_) {
    if (context.ring.load(std::memory_order_relaxed) == nullptr) return &context;
  }
  return nullptr;
}

uint32_t Profiler::EventsInUse() const {
  uint32_t events = 0;
  for (const Context& context : contexts_) {
    if (context.ring.load(std::memory_order_relaxed) == nullptr) continue;
    events |= context.events.load(std::memory_order_relaxed);
  }
  return events;
}

void Profiler::TellCommunicator(Context* context, uint64_t id, const char* name) noexcept {
  if (id == 0 || context->id.load(std::memory_order_relaxed) == id) return;
  const std::lock_guard lock(context->mutex);
  context->description.id = id;
  if (name != nullptr) SetFieldText(context->description.name, name);
  context->id.store(id, std::memory_order_relaxed);
  context->announced.store(false, std::memory_order_relaxed);
}

/// Tells the daemon which communicator the next records are of. Returns false if the ring is full.
bool Profiler::Announce(Context* context, ProfileRing* ring) noexcept {
  const std::lock_guard lock(context->mutex);
  if (context->announced.load(std::memory_order_relaxed)) return true;
  if (!WriteProfileWords(ring, std::bit_cast<ProfileWords>(context->description))) return false;
  // Release, with the acquire in Tell: who finds this writes its record after that one.
  context->announced.store(true, std::memory_order_release);
  return true;
}

void Profiler::Tell(const ProfileRecord& record) noexcept {
  Context& context = contexts_[record.communicator];
  ProfileRing* const ring = context.ring.load(std::memory_order_acquire);
  if (ring == nullptr) return;
  const bool announced =
      context.announced.load(std::memory_order_acquire) || Announce(&context, ring);
  if (!announced || !WriteProfileWords(ring, std::bit_cast<ProfileWords>(record))) {
    CountLostProfileEvent(ring);
  }
}

void Profiler::Finalize(Context* context) noexcept {
  events_.EndAll(IndexOf(context));
  context->events.store(0, std::memory_order_relaxed);
  context->ring.store(nullptr, std::memory_order_release);
}

// The child has none of the threads that were in here, and may not write into the parent's ring.
// What belongs to the session is leaked on purpose: its locks may be held.
void Profiler::AfterFork() noexcept {
  for (Context& context : contexts_) {
    context.ring.store(nullptr, std::memory_order_relaxed);
    context.events.store(0, std::memory_order_relaxed);
    new (&context.mutex) std::mutex();
  }
  events_.Reset();
  telemetry_ = nullptr;
}

}  // namespace

void InitProfiler(const CommunicatorDescription& communicator, uint32_t known, void** context,
                  int* mask) noexcept {
  void* unused_context = nullptr;
  int unused_mask = 0;
  if (context == nullptr) context = &unused_context;
  if (mask == nullptr) mask = &unused_mask;
  *context = nullptr;
  if (communicator.ranks > 0 && communicator.hosts > 0) {
    NoteCommunicatorOfThread(communicator.id, static_cast<size_t>(communicator.ranks),
                             static_cast<size_t>(communicator.hosts));
  }
  try {
    const std::lock_guard lock(init_mutex);
    static const int kWatchesForks = pthread_atfork(nullptr, nullptr, &ForgetAfterFork);
    static_cast<void>(kWatchesForks);
    Profiler* profiler = Made();
    if (profiler == nullptr) {
      profiler = new Profiler();
      made.store(profiler, std::memory_order_release);
    }
    profiler->Init(communicator, known, context, mask);
  } catch (...) {
    // There is no memory, say. Communicators that have a context keep theirs.
    *context = nullptr;
  }
}

void TellCommunicator(void* context, uint64_t id, const char* name) noexcept {
  Profiler* const profiler = Made();
  Context* const found = profiler == nullptr ? nullptr : profiler->ContextAt(context);
  if (found != nullptr) profiler->TellCommunicator(found, id, name);
}

void FinalizeProfiler(void* context) noexcept {
  Profiler* const profiler = Made();
  Context* const found = profiler == nullptr ? nullptr : profiler->ContextAt(context);
  if (found == nullptr) return;
  const std::lock_guard lock(init_mutex);
  profiler->Finalize(found);
}

bool WantsEvent(void* context, uint64_t event) noexcept {
  Profiler* const profiler = Made();
  Context* const found = profiler == nullptr ? nullptr : profiler->ContextAt(context);
  return found != nullptr && (found->events.load(std::memory_order_relaxed) & event) != 0;
}

void* BeginEvent(void* context, const EventDescription& event) noexcept {
  Profiler* const profiler = Made();
  Context* const of = profiler->ContextAt(context);
  void* const handle =
      profiler->events().Begin(profiler->IndexOf(of), event, MonotonicNanoseconds());
  ProfileRing* const ring = of->ring.load(std::memory_order_acquire);
  if (handle == nullptr && ring != nullptr) CountLostProfileEvent(ring);
  return handle;
}

ncclResult_t StopEvent(void* handle) noexcept {
  Profiler* const profiler = Made();
  if (profiler != nullptr && handle != nullptr) {
    profiler->events().Stop(handle, MonotonicNanoseconds());
  }
  return ncclSuccess;
}

void SetEventBytes(void* handle, uint64_t bytes) noexcept {
  Profiler* const profiler = Made();
  if (profiler != nullptr && handle != nullptr) profiler->events().SetBytes(handle, bytes);
}

void SetEventTimer(void* handle, uint64_t timer) noexcept {
  Profiler* const profiler = Made();
  if (profiler != nullptr && handle != nullptr) profiler->events().SetTimer(handle, timer);
}

}  // namespace harmonaize::nccl_abi
