#include "src/ipc/tuning_reader.h"

#include <time.h>

#include "src/base/clock.h"

namespace harmonaize {
namespace {

/// Pause, in nanoseconds, between two looks of a call that waits: a round between hosts takes a few
/// hundred microseconds.
constexpr long kPauseNanoseconds = 20'000;
/// Looks after which a call that waits asks whether the daemon lives, which may be a system call.
constexpr int kLooksPerQuestion = 64;

void Pause() {
  const timespec pause{.tv_sec = 0, .tv_nsec = kPauseNanoseconds};
  nanosleep(&pause, nullptr);
}

/// Returns the digest of calls that ended with this one (FNV-1a, 32 bits, over the call's words).
uint32_t DigestOf(uint32_t before, int function, uint64_t bytes) {
  constexpr uint32_t kPrime = 16777619;
  uint32_t digest = before;
  for (const uint32_t word : {static_cast<uint32_t>(function), static_cast<uint32_t>(bytes),
                              static_cast<uint32_t>(bytes >> 32)}) {
    digest = (digest ^ word) * kPrime;
  }
  return digest;
}

}  // namespace

const TuningTable& TuningReader::Next(int function, uint64_t bytes,
                                      const std::function<bool()>& daemon_lives) {
  const uint64_t call = calls_;
  NoteCall(function, bytes);
  if (stays_with_ != nullptr) return *stays_with_;
  if (segment_->held_from.load(std::memory_order_seq_cst) <= call && !Wait(call, daemon_lives)) {
    stays_with_ = &TableOf(call);
    position_->gave_up.store(1, std::memory_order_release);
    return *stays_with_;
  }
  return TableOf(call);
}

void TuningReader::NoteCall(int function, uint64_t bytes) {
  digest_ = DigestOf(digest_, function, bytes);
  ++calls_;
  if (calls_ % kCallsBetweenCheckpoints == 0) {
    const uint64_t number = calls_ / kCallsBetweenCheckpoints;
    // Relaxed: `calls`, which comes after it, publishes it.
    position_->checkpoints[number % kTuningCheckpoints].store(number << 32 | digest_,
                                                              std::memory_order_relaxed);
  }
  position_->calls.store(calls_, std::memory_order_seq_cst);
}

// Returns false if the wait was in vain.
bool TuningReader::Wait(uint64_t call, const std::function<bool()>& daemon_lives) {
  const uint64_t end = MonotonicNanoseconds() + kLongestHoldNanoseconds;
  for (int looks = 1; segment_->held_from.load(std::memory_order_acquire) <= call; ++looks) {
    if (MonotonicNanoseconds() >= end) return false;
    if (looks % kLooksPerQuestion == 0 && !daemon_lives()) return false;
    Pause();
  }
  return true;
}

const TuningTable& TuningReader::TableOf(uint64_t call) const {
  const uint32_t newest = segment_->newest.load(std::memory_order_acquire) & 1;
  const uint64_t begins = segment_->begins[newest].load(std::memory_order_acquire);
  return segment_->tables[call >= begins ? newest : 1 - newest];
}

TuningWriter::TuningWriter(TuningSegment* segment, const TuningTable& table) : segment_(segment) {
  segment_->tables[0] = table;
  segment_->tables[1] = table;
  segment_->held_from.store(kNoCall, std::memory_order_release);
}

void TuningWriter::HoldFrom(uint64_t call) {
  segment_->held_from.store(call, std::memory_order_seq_cst);
}

void TuningWriter::Commit(const TuningTable& table, uint64_t from) {
  newest_ = 1 - newest_;
  begins_ = from;
  segment_->tables[newest_] = table;
  segment_->begins[newest_].store(from, std::memory_order_release);
  segment_->newest.store(newest_, std::memory_order_release);
  Release();
}

void TuningWriter::Release() {
  segment_->held_from.store(kNoCall, std::memory_order_release);
}

}  // namespace harmonaize
