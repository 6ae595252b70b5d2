#pragma once

#include <atomic>
#include <cstdint>

namespace harmonaize {

/// Sleeps while `word` holds `expected`, at most `timeout_ns`; may return early for no reason. The
/// word may lie in memory shared between processes.
void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns);

/// Wakes everybody who sleeps on `word`.
void FutexWakeAll(std::atomic<uint32_t>* word);

}  // namespace harmonaize
