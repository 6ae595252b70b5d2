#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace harmonaize {

/// Tenants who have work, by small numbers, since there is a mask for each. More than kPlaces at
/// once share places. For the owner of the executor.
class TenantPlaces {
 public:
  static constexpr int kPlaces = 16;

  /// For an execution of this tenant, until Leave.
  int Join(uint32_t tenant);
  void Leave(int place);
  bool has_executions(int place) const {
    return places_[static_cast<size_t>(place)].executions > 0;
  }
  /// Whether several have had executions lately: at the same time, or one after the other, not more
  /// than kLately joins ago.
  bool shared() const { return joins_ - met_ < kLately; }

 private:
  static constexpr uint64_t kLately = 64;
  struct Place {
    uint32_t tenant = 0;
    uint64_t executions = 0;
  };
  std::array<Place, kPlaces> places_;
  int busy_ = 0;  // places with executions
  uint64_t joins_ = kLately;
  uint64_t met_ = 0;              // joins_ when several had executions last
  std::optional<uint32_t> last_;  // who joined last
};

/// Whose work is done next, while several tenants have some: start-time fair queueing (Goyal, Vin,
/// Cheng, SIGCOMM 1996) by the time that all threads together spend on it, whatever the number and
/// the sizes of their operations. Who had nothing to do makes up for kCreditNs of that: its next
/// operation comes only after its ranks have seen the last one end, however much it wants.
///
/// For all threads of an executor. Whatever is loaded may be a unit old, by which turns are then
/// wrong; so all orders are relaxed.
class TenantTurns {
 public:
  static constexpr double kCreditNs = 10e6;

  /// Place p has work again. For the owner, while no thread works for it.
  void Begin(int place);
  /// The place whose turn it is; bit p of `waiting`, which is not 0: place p has work.
  int Next(uint32_t waiting);
  /// Whether it would be the turn of `place` before any of the others in `waiting`.
  bool IsFirst(int place, uint32_t waiting) const;
  /// Nanoseconds spent for it, by its weight.
  void Charge(int place, double nanoseconds) {
    start_[static_cast<size_t>(place)].fetch_add(nanoseconds, std::memory_order_relaxed);
  }

 private:
  double StartOf(int place) const {
    return start_[static_cast<size_t>(place)].load(std::memory_order_relaxed);
  }

  std::array<std::atomic<double>, TenantPlaces::kPlaces> start_{};  // of what is done next for each
  std::atomic<double> clock_{0};  // the start of what was done last
};

}  // namespace harmonaize
