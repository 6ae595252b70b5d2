#pragma once

#include <atomic>
#include <cstdint>

namespace harmonaize {

// Sleeping on a word until somebody wakes who sleeps there. A waker of one kind does not wake the
// sleepers of the other: a word is of one kind for ever. Waiting may end early for no reason, and a
// waker may come late, to a word that is already gone or another's: a wake for no reason is all
// that can come of it.

/// Sleeps while `word` holds `expected`, at most `timeout_ns`. The word may lie in memory that
/// processes share.
void FutexWaitShared(const std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns);

/// Wakes all who sleep on `word`, in whatever process.
void FutexWakeAllShared(const std::atomic<uint32_t>* word);
/// Wakes at most `most` of them.
void FutexWakeShared(const std::atomic<uint32_t>* word, int most);

/// Sleeps while `word`, which only threads of this process know, holds `expected`.
void FutexWaitPrivate(const std::atomic<uint32_t>* word, uint32_t expected);

/// Wakes one thread of this process that sleeps on `word`.
void FutexWakeOnePrivate(const std::atomic<uint32_t>* word);

}  // namespace harmonaize
