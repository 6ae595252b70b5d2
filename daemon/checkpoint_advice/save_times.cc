#include "daemon/checkpoint_advice/save_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace harmonaize::daemon {
namespace {

constexpr std::string_view kPlaces[kSavePlaceCount] = {"memory", "peer", "storage"};

/// By how much the next checkpoint may be faster or slower than the fastest and the slowest that
/// were seen: few were seen, and storage is shared.
constexpr double kFaster = 0.8;
constexpr double kSlower = 1.25;

double SoundSeconds(double seconds) {
  return std::isfinite(seconds) ? std::clamp(seconds, 0.0, kMostSaveSeconds) : 0;
}

/// Returns the mean of the stalls that are known; nullopt: none is.
std::optional<double> MeanStall(const std::deque<SaveTimes::Taken>& taken) {
  double stalls = 0;
  int known = 0;
  for (const SaveTimes::Taken& one : taken) {
    stalls += one.stall_seconds.value_or(0);
    known += one.stall_seconds.has_value() ? 1 : 0;
  }
  return known > 0 ? std::optional<double>(stalls / known) : std::nullopt;
}

}  // namespace

std::string_view NameOf(SavePlace place) {
  return kPlaces[static_cast<size_t>(place)];
}

std::optional<SavePlace> SavePlaceNamed(std::string_view name) {
  const auto* const found = std::find(std::begin(kPlaces), std::end(kPlaces), name);
  if (found == std::end(kPlaces)) return std::nullopt;
  return static_cast<SavePlace>(found - std::begin(kPlaces));
}

std::string_view NameOf(SaveBasis basis) {
  switch (basis) {
    case SaveBasis::kAssumed: return "assumed";
    case SaveBasis::kStated: return "stated";
    case SaveBasis::kMeasured: return "measured";
  }
  return "";
}

void SaveTimes::Take(SavePlace place, std::optional<double> stall_seconds, double safe_seconds) {
  std::deque<Taken>& taken = taken_[static_cast<size_t>(place)];
  if (stall_seconds.has_value()) stall_seconds = SoundSeconds(*stall_seconds);
  // Nothing is safe before the job goes on.
  taken.push_back({stall_seconds, std::max(stall_seconds.value_or(0), SoundSeconds(safe_seconds))});
  if (taken.size() > kKept) taken.pop_front();
  last_ = place;
}

SaveEstimate SaveTimes::Measured(const std::deque<Taken>& taken,
                                 std::optional<double> stated_stall) const {
  std::vector<double> safe;
  for (const Taken& one : taken) safe.push_back(one.safe_seconds);
  std::sort(safe.begin(), safe.end());
  std::optional<double> stall = MeanStall(taken);
  for (const std::deque<Taken>& elsewhere : taken_) {
    if (!stall.has_value()) stall = MeanStall(elsewhere);
  }
  const double otherwise = SoundSeconds(stated_stall.value_or(safe[safe.size() / 2]));
  return {.stall_seconds = stall.value_or(otherwise),
          .safe_seconds = {.p10 = safe.front() * kFaster,
                           .p50 = safe[safe.size() / 2],
                           .p90 = safe.back() * kSlower},
          .basis = SaveBasis::kMeasured};
}

SaveEstimate SaveTimes::Unmeasured(std::optional<double> stated_stall) {
  if (!stated_stall.has_value()) {
    return {.stall_seconds = kAssumedStallSeconds,
            .safe_seconds = {0, kAssumedSafeSeconds, 2 * kAssumedSafeSeconds},
            .basis = SaveBasis::kAssumed};
  }
  const double stall = SoundSeconds(*stated_stall);
  return {.stall_seconds = stall,
          .safe_seconds = {stall * kFaster, stall, std::max(stall * kSlower, kAssumedSafeSeconds)},
          .basis = SaveBasis::kStated};
}

SaveEstimate SaveTimes::Usual(std::optional<double> stated_stall) const {
  return last_.has_value() ? Measured(Of(*last_), stated_stall) : Unmeasured(stated_stall);
}

SaveEstimate SaveTimes::Lasting(std::optional<double> stated_stall) const {
  const SavePlace places[] = {SavePlace::kPeer, SavePlace::kStorage};
  std::optional<SaveEstimate> fastest;
  for (const SavePlace place : places) {
    if (Of(place).empty()) continue;
    const SaveEstimate one = Measured(Of(place), stated_stall);
    if (!fastest.has_value() || one.safe_seconds.p90 < fastest->safe_seconds.p90) fastest = one;
  }
  return fastest.value_or(Unmeasured(stated_stall));
}

}  // namespace harmonaize::daemon
