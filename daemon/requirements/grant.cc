#include "daemon/requirements/grant.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "src/base/measure.h"

namespace harmonaize::daemon {
namespace {

/// Grants the keys of one table: [collectives] and others, or one override.
class TableGrant {
 public:
  /// `full` is put before keys in shortfalls, and `collectives` before those of [collectives].
  TableGrant(RequirementTable* table, std::span<const RequirementKey> keys, std::string full,
             std::string collectives, std::vector<Shortfall>* shortfalls)
      : table_(*table),
        keys_(keys),
        full_(std::move(full)),
        collectives_(std::move(collectives)),
        shortfalls_(*shortfalls) {}

  void GrantCollectives(const TenantPolicy& policy, const HostMeans& host) {
    GrantPriority(policy);
    GrantFloor(policy, host);
    GrantCap(policy);
    GrantProcessors(policy, host);
    if (!policy.compression) Refuse(collectives_ + "compression.allow", kNoCompression);
    GrantObjective(policy);
  }

  void GrantFaults(const TenantPolicy& policy) {
    const std::string key = "faults.late_after";
    const double* const asked = Find<double>(key);
    if (asked == nullptr || *asked >= policy.least_late_after_seconds) return;
    Replace(key, policy.least_late_after_seconds, "the provider tells of late ranks no sooner");
  }

  void GrantCheckpoint(const TenantPolicy& policy) {
    for (const char* const key : {"checkpoint.interval", "checkpoint.most_lost_work"}) {
      const double* const asked = Find<double>(key);
      if (asked == nullptr || *asked >= policy.least_checkpoint_interval_seconds) continue;
      Replace(key, policy.least_checkpoint_interval_seconds,
              "the provider advises checkpoints no more often");
    }
  }

 private:
  static constexpr std::string_view kCapped =
      "the provider's policy caps what this tenant's jobs send together";
  static constexpr std::string_view kNoCompression =
      "the provider's policy lets no job have sums compressed";

  template <typename Value>
  const Value* Find(const std::string& key) const {
    const auto found = table_.find(key);
    return found == table_.end() ? nullptr : std::get_if<Value>(&found->second);
  }

  void GrantPriority(const TenantPolicy& policy) {
    const std::string key = collectives_ + "priority";
    const int64_t* const asked = Find<int64_t>(key);
    if (asked == nullptr || *asked <= policy.most_priority) return;
    Replace(
        key, policy.most_priority,
        fmt::format("the provider's policy grants a priority of {} at most", policy.most_priority));
  }

  void GrantFloor(const TenantPolicy& policy, const HostMeans& host) {
    const std::string key = collectives_ + "bandwidth_floor";
    const double* const asked = Find<double>(key);
    if (asked == nullptr) return;
    if (policy.most_bandwidth_floor <= 0) {
      return Refuse(key, "the provider's policy promises no rate to this tenant");
    }
    if (!host.most_floor.ok()) return Refuse(key, host.most_floor.status().message());
    const double of_policy = policy.most_bandwidth_floor;
    const double of_links = *host.most_floor;
    const double most = std::min(of_policy, of_links);
    if (*asked <= most) return;
    Replace(key, most,
            of_policy <= of_links
                ? fmt::format("the provider's policy promises {} at most to this tenant's jobs "
                              "together",
                              FormatMeasure(Measure::kRate, of_policy))
                : fmt::format("no more than {} can be promised on this host's slowest link",
                              FormatMeasure(Measure::kRate, of_links)));
  }

  void GrantCap(const TenantPolicy& policy) {
    const std::string key = collectives_ + "bandwidth_cap";
    if (policy.most_bandwidth_cap <= 0) return;
    const double cap = policy.most_bandwidth_cap;
    const double* const asked = Find<double>(key);
    if (asked != nullptr && *asked > cap) Replace(key, cap, kCapped);
    // An override that says nothing goes by what holds for the whole job.
    if (asked == nullptr && !collectives_.empty()) table_.insert_or_assign(key, cap);
    // A floor above the cap could not be kept.
    const std::string floor_key = collectives_ + "bandwidth_floor";
    const double* const floor = Find<double>(floor_key);
    if (floor != nullptr && *floor > cap) {
      Replace(floor_key, cap, kCapped);
    }
  }

  void GrantProcessors(const TenantPolicy& policy, const HostMeans& host) {
    const std::string key = collectives_ + "processors";
    const int64_t most =
        policy.most_processors > 0 ? std::min(policy.most_processors, host.workers) : host.workers;
    const int64_t* const asked = Find<int64_t>(key);
    if (asked == nullptr) {
      const bool is_bound = policy.most_processors > 0 && !collectives_.empty();
      if (is_bound) table_.insert_or_assign(key, most);
      return;
    }
    if (*asked <= most) return;
    Replace(key, most,
            most < host.workers
                ? fmt::format("the provider's policy grants {} at most", most)
                : fmt::format("the daemon has {} workers on this host", host.workers));
  }

  // The objective is granted as far as plans go.
  void GrantObjective(const TenantPolicy& policy) {
    const std::string key = collectives_ + "objective";
    const auto* const asked = Find<std::string>(key);
    if (asked == nullptr || *asked != "latency" || policy.spinning) return;
    Note(key, TextOf(key) + " for plans",
         "the provider's policy has spinning = false, so no processor keeps looking for the job's "
         "operations");
  }

  void Refuse(const std::string& key, std::string_view why) {
    if (!table_.contains(key)) return;
    Note(key, "", why);
    table_.erase(key);
  }

  void Replace(const std::string& key, RequirementValue granted, std::string_view why) {
    const std::string asked = TextOf(key);
    table_.insert_or_assign(key, std::move(granted));
    shortfalls_.push_back({full_ + key, asked, TextOf(key), std::string(why)});
  }

  void Note(const std::string& key, std::string granted, std::string_view why) {
    shortfalls_.push_back({full_ + key, TextOf(key), std::move(granted), std::string(why)});
  }

  std::string TextOf(const std::string& key) const {
    const auto found = table_.find(key);
    if (found == table_.end()) return "";
    const auto known = std::find_if(keys_.begin(), keys_.end(),
                                    [&](const RequirementKey& one) { return one.name == key; });
    return known == keys_.end() ? "" : RequirementValueText(*known, found->second);
  }

  RequirementTable& table_;
  const std::span<const RequirementKey> keys_;
  const std::string full_;
  const std::string collectives_;
  std::vector<Shortfall>& shortfalls_;
};

bool SaysLatency(const RequirementTable& table, std::string_view key) {
  const auto found = table.find(key);
  return found != table.end() && std::get<std::string>(found->second) == "latency";
}

bool WantsLatency(const Requirements& granted) {
  return SaysLatency(granted.values, "collectives.objective") ||
         std::any_of(granted.overrides.begin(), granted.overrides.end(),
                     [](const RequirementTable& one) { return SaysLatency(one, "objective"); });
}

}  // namespace

Grant GrantBasis::For(const Requirements& statement) const {
  Grant grant = GrantOf(Merged(policy->defaults, statement), *policy, host);
  std::erase_if(grant.shortfalls, [&](const Shortfall& one) {
    return policy->defaults.values.contains(one.key) && !statement.values.contains(one.key);
  });
  return grant;
}

Grant GrantOf(const Requirements& asked, const TenantPolicy& policy, const HostMeans& host) {
  Grant grant{.granted = asked, .shortfalls = {}};
  TableGrant whole(&grant.granted.values, RequirementKeys(), "", "collectives.", &grant.shortfalls);
  whole.GrantCollectives(policy, host);
  whole.GrantFaults(policy);
  whole.GrantCheckpoint(policy);
  for (size_t i = 0; i < grant.granted.overrides.size(); ++i) {
    TableGrant(&grant.granted.overrides[i], OverrideKeys(),
               fmt::format("{}[{}].", kOverrideList, i), "", &grant.shortfalls)
        .GrantCollectives(policy, host);
  }
  grant.keeps_looking = policy.spinning && WantsLatency(grant.granted);
  return grant;
}

}  // namespace harmonaize::daemon
