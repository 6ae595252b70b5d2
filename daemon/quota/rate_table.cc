#include "daemon/quota/rate_table.h"

#include <algorithm>
#include <cmath>

namespace harmonaize::daemon {

double RateTable::TokensAt(const Bucket& bucket, Time now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  return std::min(limit_.burst, bucket.tokens + seconds * limit_.per_second);
}

// Returns the key's bucket, with its tokens of now.
RateTable::Bucket& RateTable::BucketAt(const std::string& key, Time now) {
  auto found = buckets_.find(key);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMostKeys) MakeRoom(now);
    found = buckets_.emplace(key, Bucket{limit_.burst, now}).first;
  }
  Bucket& bucket = found->second;
  bucket.tokens = TokensAt(bucket, now);
  bucket.at = now;
  return bucket;
}

std::optional<std::chrono::milliseconds> RateTable::WaitFor(double lacking) const {
  if (lacking <= 0) return std::nullopt;
  const double wait_ms = 1000 * lacking / limit_.per_second;
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(wait_ms)));
}

std::optional<std::chrono::milliseconds> RateTable::Look(const std::string& key, Time now,
                                                         double cost) {
  return WaitFor(cost - BucketAt(key, now).tokens);
}

std::optional<std::chrono::milliseconds> RateTable::TakeAll(std::initializer_list<Act> acts,
                                                            Time now) {
  double most_lacking = 0;
  for (const Act& act : acts) {
    most_lacking = std::max(most_lacking, act.cost - BucketAt(act.key, now).tokens);
  }
  if (most_lacking > 0) return WaitFor(most_lacking);
  for (const Act& act : acts) BucketAt(act.key, now).tokens -= act.cost;
  return std::nullopt;
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
