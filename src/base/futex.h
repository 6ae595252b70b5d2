#pragma once

#include <atomic>
#include <cstdint>

namespace harmonaize {

// Sleeping on a word until another thread wakes its sleepers. A waker of one kind does not wake the
// sleepers of the other, so a word has one kind for ever. A wait may end early for no reason. A
// waker may come late, to a word that is already gone or belongs to others: a needless wake is all
// that can follow.

/// Sleeps while `word` holds `expected`, for at most `timeout_ns`. The word may lie in memory that
/// processes share.
void FutexWaitShared(const std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns);

/// Wakes all threads that sleep on `word`, in any process.
void FutexWakeAllShared(const std::atomic<uint32_t>* word);
/// Wakes at most `most` of these threads.
void FutexWakeShared(const std::atomic<uint32_t>* word, int most);

/// Sleeps while `word`, which only threads of this process use, holds `expected`.
void FutexWaitPrivate(const std::atomic<uint32_t>* word, uint32_t expected);

/// Wakes one thread of this process that sleeps on `word`.
void FutexWakeOnePrivate(const std::atomic<uint32_t>* word);

}  // namespace harmonaize
