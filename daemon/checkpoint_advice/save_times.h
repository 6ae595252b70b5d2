#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "daemon/checkpoint_advice/hazard.h"

namespace harmonaize::daemon {

/// Where a checkpoint lies.
enum class SavePlace : uint8_t {
  kMemory,   ///< In the memory of the hosts whose ranks have made it.
  kPeer,     ///< In the memory of other hosts, too.
  kStorage,  ///< On storage that outlives all hosts.
};
inline constexpr size_t kSavePlaceCount = 3;

/// Returns "memory", "peer" or "storage"; and back, nullopt for another text.
std::string_view NameOf(SavePlace place);
std::optional<SavePlace> SavePlaceNamed(std::string_view name);

/// What the times of a checkpoint are known from.
enum class SaveBasis : uint8_t { kAssumed, kStated, kMeasured };
/// Returns "assumed", "stated" or "measured".
std::string_view NameOf(SaveBasis basis);

/// What a checkpoint takes.
struct SaveEstimate {
  double stall_seconds = 0;  ///< For how long it keeps the job from its work, on average.
  Spread safe_seconds = {};  ///< From its begin until it is safe.
  SaveBasis basis = SaveBasis::kAssumed;
};

/// The last times of one job's checkpoints, by place. A plain value.
class SaveTimes {
 public:
  /// Takes in what one checkpoint took; a stall that nobody has told is not known. Values that make
  /// no sense count as nothing.
  void Take(SavePlace place, std::optional<double> stall_seconds, double safe_seconds);

  /// Returns what a checkpoint takes, by the place that the job has used last. `stated_stall` is
  /// what the tenant has said; it counts until a stall was measured. A stall that was measured at
  /// another place counts, too: a checkpoint stops its job once, and is at several places in turn.
  /// Where none is known, a checkpoint counts as stopping the job until it is safe: that is the
  /// most that it can.
  SaveEstimate Usual(std::optional<double> stated_stall) const;
  /// Returns what a checkpoint takes that outlives the host.
  SaveEstimate Lasting(std::optional<double> stated_stall) const;

  /// Checkpoints at a place of which the times are kept: enough for quantiles, few enough to follow
  /// a job whose state grows.
  static constexpr size_t kKept = 16;

  /// What one checkpoint took.
  struct Taken {
    std::optional<double> stall_seconds = {};
    double safe_seconds = 0;
  };
  /// Returns the last checkpoints at a place, the oldest first.
  const std::deque<Taken>& Of(SavePlace place) const { return taken_[static_cast<size_t>(place)]; }

 private:
  SaveEstimate Measured(const std::deque<Taken>& taken, std::optional<double> stated_stall) const;
  static SaveEstimate Unmeasured(std::optional<double> stated_stall);

  std::array<std::deque<Taken>, kSavePlaceCount> taken_;  // the oldest first
  std::optional<SavePlace> last_;                         // where the last one lies
};

/// Stall and time of a checkpoint of which nothing is known, in seconds: those of some tens of GB
/// that are written to a file system at some GB/s while the job waits.
inline constexpr double kAssumedStallSeconds = 30;
inline constexpr double kAssumedSafeSeconds = 60;
/// Longest stall or time that counts, in seconds: a day.
inline constexpr double kMostSaveSeconds = 86400;

}  // namespace harmonaize::daemon
