#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace harmonaize::daemon {

/// Why a job loses the work since its last checkpoint.
enum class FailureCause : uint8_t {
  kRank,     ///< A process of the job ends, by its own fault or its tenant's wish.
  kHost,     ///< A host, or the daemon on it, is lost without a notice.
  kLink,     ///< A link is cut.
  kEarly,    ///< Something that was announced begins before the time that was promised.
  kReclaim,  ///< A host is taken back, with a notice that is too short for a checkpoint.
};
inline constexpr size_t kFailureCauseCount = 5;

/// Returns "rank", "host", "link", "early" or "reclaim".
std::string_view NameOf(FailureCause cause);

/// An estimate: the true value is below p10 with a probability of 10%, and so on.
struct Spread {
  double p10 = 0;
  double p50 = 0;
  double p90 = 0;

  bool operator==(const Spread&) const = default;
};

/// What was seen of one cause. A unit is a rank for kRank, and a host for all others.
struct SeenFailures {
  double events = 0;
  double unit_seconds = 0;  ///< Time that units were watched, of all units together.

  /// Gives what was seen less weight, since so much time has passed: programs change, and hosts
  /// are repaired.
  void Age(double seconds);

  bool operator==(const SeenFailures&) const = default;
};
using SeenByCause = std::array<SeenFailures, kFailureCauseCount>;

/// The rate of one cause, of one unit: a Gamma distribution. It is the conjugate prior of events
/// that come independently of each other, so what was seen is added to its two parameters.
class FailureRate {
 public:
  /// The rate that is believed after the prior and what was seen. Values of `seen` that make no
  /// sense count as nothing.
  FailureRate(FailureCause cause, const SeenFailures& seen);
  FailureRate(double shape, double unit_seconds) : shape_(shape), unit_seconds_(unit_seconds) {}

  /// Returns the expected events of a unit in a second.
  double Mean() const { return shape_ / unit_seconds_; }
  /// Returns the rate, in events of a unit in a second, that the true one is below with this
  /// probability. Requires: 0 < probability < 1.
  double Quantile(double probability) const;
  Spread Quantiles() const { return {Quantile(0.1), Quantile(0.5), Quantile(0.9)}; }
  double shape() const { return shape_; }

 private:
  double shape_;
  double unit_seconds_;
};

/// How many units of each kind a job has.
struct JobUnits {
  double ranks = 1;
  double hosts = 1;
};

/// How often a job has to expect failures, in events a second.
struct HazardOfCause {
  double mean = 0;
  Spread spread = {};
};
struct JobHazard {
  std::array<HazardOfCause, kFailureCauseCount> by_cause = {};
  double mean = 0;  ///< Of all causes together.
  Spread spread = {};
};

/// Returns the hazard of a job, in which any unit's failure is a failure of the job. What hosts
/// have seen is rounded by Coarse, so that a tenant learns from its advice no more of others than
/// an order of magnitude; what the job's own ranks have done is not.
JobHazard HazardOf(const SeenByCause& seen, const JobUnits& units);

/// Returns JobHazard::mean alone, which takes a hundredth of the time.
double MeanHazardOf(const SeenByCause& seen, const JobUnits& units);

/// Returns the value rounded to 1, 2 or 5 times a power of ten; 0 for what is not positive.
double Coarse(double value);

}  // namespace harmonaize::daemon
