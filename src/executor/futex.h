#pragma once

#include <atomic>
#include <cstdint>

namespace harmonaize {

/// Sleeps while `word` holds `value`; may return early. Threads of this process only.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t value);

/// Wakes one thread that sleeps on `word`. The word may be gone already: a spurious wake is all
/// that can come of it.
void FutexWakeOne(const std::atomic<uint32_t>& word);

}  // namespace harmonaize
