#include "daemon/profiles/profile_collector.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {

ProfileCollector::~ProfileCollector() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

uint64_t ProfileCollector::Add(uint32_t tenant, std::shared_ptr<RegionMemory> memory,
                               std::shared_ptr<JobProfile> job) {
  auto ring = std::make_shared<Ring>(tenant, std::move(memory), std::move(job));
  const std::lock_guard lock(mutex_);
  // Hosts on which nobody profiles have no such thread.
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  rings_.emplace(++last_ring_, std::move(ring));
  changed_.notify_all();
  return last_ring_;
}

void ProfileCollector::Close(uint64_t ring) {
  const std::lock_guard lock(mutex_);
  const auto found = rings_.find(ring);
  // Release, with the acquire in Read: what the process wrote before its end is read after this.
  if (found != rings_.end()) found->second->closing.store(true, std::memory_order_release);
}

ProfileCollector::Counts ProfileCollector::counts() const {
  Counts counts;
  for (size_t i = 0; i < counts.records.events.size(); ++i) {
    counts.records.events[i] = published_.events[i].load(std::memory_order_relaxed);
  }
  counts.records.lost = published_.lost.load(std::memory_order_relaxed);
  counts.records.malformed = published_.malformed.load(std::memory_order_relaxed);
  counts.busy_ns = published_.busy_ns.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  counts.rings = rings_.size();
  return counts;
}

void ProfileCollector::Run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !rings_.empty(); });
      if (stopping_) return;
    }
    const uint64_t begun_ns = MonotonicNanoseconds();
    GuardedAndLogged("reading profiler events", [this] { ReadAll(); });
    RemoveEnded();
    const uint64_t took_ns = MonotonicNanoseconds() - begun_ns;
    busy_ns_ += took_ns;
    Publish();
    const uint64_t turn_ns = std::max(kProfileTurnNanoseconds, took_ns * kProfileRestFactor);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(turn_ns - took_ns),
                      [this] { return stopping_; });
  }
}

// Tenants take turns by batches, so that one that fills its rings takes no time from another before
// that one's batch.
void ProfileCollector::ReadAll() {
  {
    const std::lock_guard lock(mutex_);
    reading_ = rings_;
  }
  std::map<uint32_t, Turn> turns;
  for (const auto& [number, ring] : reading_) turns[ring->tenant].rings.push_back(ring.get());
  while (!turns.empty()) {
    for (auto turn = turns.begin(); turn != turns.end();) {
      turn = ReadSome(&turn->second) ? std::next(turn) : turns.erase(turn);
    }
  }
}

/// Reads a batch of one of the tenant's rings. Returns whether there may be more for this turn.
bool ProfileCollector::ReadSome(Turn* turn) {
  const size_t read = Read(turn->rings[turn->next]);
  turn->records += read;
  if (turn->records >= kMostProfileRecordsInTurn) return false;
  if (read == records_.size()) {
    turn->next = (turn->next + 1) % turn->rings.size();
  } else {
    turn->rings.erase(turn->rings.begin() + static_cast<ptrdiff_t>(turn->next));
    if (turn->next == turn->rings.size()) turn->next = 0;
  }
  return !turn->rings.empty();
}

size_t ProfileCollector::Read(Ring* ring) {
  if (ring->ended) return 0;
  if (!std::exchange(ring->begun, true)) ring->job->BeginProcess();
  const bool closing = ring->closing.load(std::memory_order_acquire);
  const size_t read = ring->reader.Take(records_, MonotonicNanoseconds());
  const uint64_t lost = ring->reader.TakeLost();
  if (ring->memory->guard.lost()) {
    // The process took its memory away; what was read of it means nothing.
    ring->ended = true;
    return 0;
  }
  if (read > 0 || lost > 0) {
    ring->job->Add(&ring->process, std::span(records_).first(read), lost, &counts_);
  }
  // A child of the process that has the memory, too, could write for ever.
  if (closing) ring->read_closing += read;
  ring->ended = closing && (read < records_.size() || ring->read_closing >= kProfileSlots);
  return read;
}

void ProfileCollector::RemoveEnded() {
  for (const auto& [number, ring] : reading_) {
    if (!ring->ended) continue;
    if (ring->begun) ring->job->EndProcess(&ring->process);
    const std::lock_guard lock(mutex_);
    rings_.erase(number);
  }
  // The last references go here, and the regions to their tenants' receptions.
  reading_.clear();
}

void ProfileCollector::Publish() {
  for (size_t i = 0; i < counts_.events.size(); ++i) {
    published_.events[i].store(counts_.events[i], std::memory_order_relaxed);
  }
  published_.lost.store(counts_.lost, std::memory_order_relaxed);
  published_.malformed.store(counts_.malformed, std::memory_order_relaxed);
  published_.busy_ns.store(busy_ns_, std::memory_order_relaxed);
}

}  // namespace harmonaize::daemon
