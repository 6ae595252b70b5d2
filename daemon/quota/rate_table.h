#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

namespace harmonaize::daemon {

/// How often something may be done.
struct RateLimit {
  double per_second = 0;  ///< In the long run.
  double burst = 0;       ///< At once.
};

/// Token buckets, one for each key. The number of keys is bounded: quiet ones are forgotten first.
/// Thread: one.
class RateTable {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Most keys that are remembered; beyond that one of the others starts afresh.
  static constexpr size_t kMostKeys = 4096;

  explicit RateTable(RateLimit limit) : limit_(limit) {}

  /// Counts an act under the key, as so many. Returns nullopt if the act is within the limit;
  /// otherwise for how long the key has to wait, and counts nothing.
  std::optional<std::chrono::milliseconds> Take(const std::string& key, Time now, double cost = 1) {
    return TakeAll({{key, cost}}, now);
  }
  struct Act {
    std::string key;
    double cost = 1;
  };
  /// Counts acts under different keys, if all of them are within the limit. Returns likewise; the
  /// longest of the times that keys have to wait.
  std::optional<std::chrono::milliseconds> TakeAll(std::initializer_list<Act> acts, Time now);
  /// Returns what Take returns for an act under the key, and counts nothing.
  std::optional<std::chrono::milliseconds> Look(const std::string& key, Time now, double cost = 1);
  size_t keys() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens = 0;
    Time at{};
  };

  Bucket& BucketAt(const std::string& key, Time now);
  double TokensAt(const Bucket& bucket, Time now) const;
  std::optional<std::chrono::milliseconds> WaitFor(double lacking) const;
  void MakeRoom(Time now);

  const RateLimit limit_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace harmonaize::daemon
