#include "src/executor/host/parking.h"

#include <bit>

#include "src/base/futex.h"

namespace harmonaize {

void Parking::Sleep(int worker) {
  const std::atomic<uint32_t>& signal = spots_[static_cast<size_t>(worker)].signal;
  while (signal.load(std::memory_order_acquire) == 0) FutexWaitPrivate(&signal, 0);
}

int Parking::Wake(int count) {
  int woken = 0;
  while (woken < count) {
    const uint64_t parked = parked_.load(std::memory_order_seq_cst);
    if (parked == 0) break;
    const int worker = std::countr_zero(parked);
    const uint64_t bit = uint64_t{1} << worker;
    if ((parked_.fetch_and(~bit, std::memory_order_seq_cst) & bit) == 0) continue;
    std::atomic<uint32_t>& signal = spots_[static_cast<size_t>(worker)].signal;
    // Release, with the acquire in Sleep: the woken worker sees all that its waker did.
    signal.store(1, std::memory_order_release);
    FutexWakeOnePrivate(&signal);
    wakes_.fetch_add(1, std::memory_order_relaxed);
    ++woken;
  }
  return woken;
}

}  // namespace harmonaize
