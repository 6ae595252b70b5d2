#include "daemon/formation/disagreements.h"

#include <utility>

#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of memory that a tenant is charged for each rank that knows. A place in a set takes less.
constexpr int64_t kToldRankBytes = 64;

}  // namespace

void Disagreements::Remember(const FormationKey& key, const Status& why, std::set<int> told,
                             Account& account) {
  Result<Holding> place = account.Take(Resource::kUniqueIds, 1);
  Result<Holding> memory =
      account.Take(Resource::kMemory, kToldRankBytes * static_cast<int64_t>(told.size()));
  if (!place.ok() || !memory.ok()) return;
  Failed& failed = failed_[key];
  failed.why = why;
  failed.told = std::move(told);
  failed.ends_ns = MonotonicNanoseconds() + lasts_ns_;
  failed.place = std::move(*place);
  failed.memory = std::move(*memory);
}

Status Disagreements::Check(const FormationKey& key, int rank) {
  const auto found = failed_.find(key);
  if (found == failed_.end()) return Status::Ok();
  Failed& failed = found->second;
  const bool knows = failed.told.contains(rank);
  // A rank that cannot be remembered is told again.
  if (!knows && failed.memory.Add(kToldRankBytes).ok()) failed.told.insert(rank);
  // A rank that comes back by a name, or to the same parent, begins anew. A drawn id is spent.
  const bool anew = knows && key.kind != FormationKey::Kind::kSecretId;
  if (!anew && MonotonicNanoseconds() < failed.ends_ns) return failed.why;
  failed_.erase(found);
  return Status::Ok();
}

void Disagreements::ForgetOld(uint64_t now_ns) {
  std::erase_if(failed_, [&](const auto& one) { return one.second.ends_ns <= now_ns; });
}

}  // namespace harmonaize::daemon
