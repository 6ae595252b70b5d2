#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "src/executor/host/machine.h"

namespace harmonaize {

/// Lets workers sleep, and wakes as many of them as there is work for.
///
/// The one thing to get right is that a worker which has just seen no work and a thread that has
/// just posted some do not miss each other. The worker sets its bit in `parked_`, then looks for
/// work once more; the poster publishes work, then looks at `parked_` and `searching_`. All four
/// accesses are sequentially consistent, so at least one of the two sees what the other did.
class Parking {
 public:
  /// Between these two calls a worker searches: posters wake nobody for work that it will find. So
  /// the work that it finds may be one of several pieces left to it. It must then look once more,
  /// and wake another worker for the rest.
  void BeginSearch() { searching_.fetch_add(1, std::memory_order_seq_cst); }
  void EndSearch() { searching_.fetch_sub(1, std::memory_order_seq_cst); }
  int searching() const { return searching_.load(std::memory_order_seq_cst); }

  /// Sleeps until woken, unless has_work(), which must load what posters store with sequential
  /// consistency. Returns whether there was no work, so that nothing can have been left to this
  /// worker. Requires: EndSearch() was called.
  template <typename HasWork>
  bool Park(int worker, HasWork has_work) {
    const uint64_t bit = uint64_t{1} << worker;
    // Only the thread that clears our bit writes the signal, and the bit is not set yet.
    spots_[static_cast<size_t>(worker)].signal.store(0, std::memory_order_relaxed);
    parked_.fetch_or(bit, std::memory_order_seq_cst);
    // Another thread may have cleared the bit in the meantime. Its signal is then due and has to be
    // waited for; otherwise it would come in the middle of the next sleep.
    const bool nothing = !has_work();
    if (nothing || (parked_.fetch_and(~bit, std::memory_order_seq_cst) & bit) == 0) Sleep(worker);
    return nothing;
  }

  /// Wakes up to `count` sleeping workers; returns how many it woke.
  int Wake(int count);
  /// Returns the number of workers woken so far, by a system call each.
  uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }
  bool anyone_parked() const { return parked() != 0; }
  int parked() const { return std::popcount(parked_.load(std::memory_order_seq_cst)); }

 private:
  struct alignas(64) Spot {
    std::atomic<uint32_t> signal{0};
  };

  void Sleep(int worker);

  alignas(64) std::atomic<uint64_t> parked_{0};
  alignas(64) std::atomic<int> searching_{0};
  std::atomic<uint64_t> wakes_{0};
  std::array<Spot, kMaxWorkers> spots_;
};

}  // namespace harmonaize
