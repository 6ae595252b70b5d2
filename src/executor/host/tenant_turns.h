#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace harmonaize {

/// Gives tenants that have work small numbers, which masks need. If more than kPlaces have work at
/// once, some share a place. Thread: the executor's owner.
class TenantPlaces {
 public:
  /// Number of places.
  static constexpr int kPlaces = 16;

  /// Returns the place of this tenant for one more execution, which lasts until Leave.
  int Join(uint32_t tenant);
  void Leave(int place);
  bool has_executions(int place) const {
    return places_[static_cast<size_t>(place)].executions > 0;
  }
  /// Returns whether several tenants have had executions lately: at the same time, or one after the
  /// other, not more than kLately joins ago.
  bool shared() const { return joins_ - met_ < kLately; }

 private:
  /// Number of joins that count as lately.
  static constexpr uint64_t kLately = 64;
  struct Place {
    uint32_t tenant = 0;
    uint64_t executions = 0;
  };
  std::array<Place, kPlaces> places_;
  int busy_ = 0;  // places with executions
  uint64_t joins_ = kLately;
  uint64_t met_ = 0;              // joins_ when several had executions last
  std::optional<uint32_t> last_;  // the tenant that joined last
};

/// Chooses the tenant whose work is done next while several have some. It is start-time fair
/// queueing (Goyal, Vin, Cheng, SIGCOMM 1996) by the time that all threads together spend for each
/// tenant, whatever the number and sizes of its operations. A tenant that had nothing to do may
/// make up for kCreditNs of that time: its next operation comes only after its ranks have seen the
/// last one end, however much it wants.
///
/// Thread: any of an executor. A loaded value may be a unit old, which only makes a turn wrong; so
/// all orders are relaxed.
class TenantTurns {
 public:
  /// Most time, in nanoseconds, for which a tenant that had nothing to do may make up.
  static constexpr double kCreditNs = 10e6;

  /// Notes that the place has work again.
  void Begin(int place);
  /// Returns the place whose turn it is. Bit p of `waiting`, which is not 0: place p has work.
  int Next(uint32_t waiting);
  /// Returns whether `place` would have its turn before any of the others in `waiting`.
  bool IsFirst(int place, uint32_t waiting) const;
  /// Adds time spent for a place, already divided by its tenant's weight.
  void Charge(int place, double nanoseconds) {
    start_[static_cast<size_t>(place)].fetch_add(nanoseconds, std::memory_order_relaxed);
  }

 private:
  double StartOf(int place) const {
    return start_[static_cast<size_t>(place)].load(std::memory_order_relaxed);
  }

  std::array<std::atomic<double>, TenantPlaces::kPlaces> start_{};  // of what is next, by place
  std::atomic<double> clock_{0};  // the start of what was done last
};

}  // namespace harmonaize
