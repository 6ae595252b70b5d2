#include "daemon/quota/rate_table.h"

#include <algorithm>
#include <cmath>

namespace harmonaize::daemon {

double RateTable::TokensAt(const Bucket& bucket, Time now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  return std::min(limit_.burst, bucket.tokens + seconds * limit_.per_second);
}

std::optional<std::chrono::milliseconds> RateTable::Take(const std::string& key, Time now,
                                                         double cost) {
  auto found = buckets_.find(key);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMostKeys) MakeRoom(now);
    found = buckets_.emplace(key, Bucket{limit_.burst, now}).first;
  }
  Bucket& bucket = found->second;
  bucket.tokens = TokensAt(bucket, now);
  bucket.at = now;
  if (bucket.tokens >= cost) {
    bucket.tokens -= cost;
    return std::nullopt;
  }
  const double wait_ms = 1000 * (cost - bucket.tokens) / limit_.per_second;
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(wait_ms)));
}

// The fullest bucket is the one whose loss changes least.
void RateTable::MakeRoom(Time now) {
  std::erase_if(buckets_,
                [&](const auto& entry) { return TokensAt(entry.second, now) >= limit_.burst; });
  if (buckets_.size() < kMostKeys) return;
  buckets_.erase(
      std::max_element(buckets_.begin(), buckets_.end(), [&](const auto& one, const auto& other) {
        return TokensAt(one.second, now) < TokensAt(other.second, now);
      }));
}

}  // namespace harmonaize::daemon
