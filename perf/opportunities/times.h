#pragma once

#include <chrono>
#include <vector>

#include <nlohmann/json.hpp>

namespace harmonaize::opportunities {

/// Durations of one kind of thing, and their quantiles. Thread: one.
class Times {
 public:
  void Add(double seconds) { seconds_.push_back(seconds); }

  /// Returns the duration that this fraction of all do not exceed (nearest rank); 0 without any.
  double Quantile(double fraction) const;

  /// Returns the count, and the mean, the quantiles 0.5, 0.99 and 0.999, and the longest one, in
  /// seconds. Quantiles that so few durations do not tell are null.
  nlohmann::ordered_json Summary() const;

 private:
  std::vector<double> seconds_;
};

/// Times one thing after the other, from the moment when it is made. Thread: one.
class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns the seconds since it was made, or since the last lap.
  double Lap() {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - began_).count();
    began_ = now;
    return seconds;
  }

 private:
  Clock::time_point began_ = Clock::now();
};

}  // namespace harmonaize::opportunities
