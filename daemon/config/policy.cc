#include "daemon/config/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "src/base/measure.h"
#include "src/base/toml_reader.h"
#include "src/base/toml_text.h"

namespace harmonaize::daemon {
namespace {

/// Upper bounds of values without a natural limit: beyond what any host has.
constexpr double kMostPolicyRate = 1e14;
constexpr int64_t kMostPolicyRanks = 1 << 20;
constexpr int64_t kMostPolicyProcessors = 1024;
constexpr double kMostPolicySeconds = 86400;
constexpr int64_t kMostChangesPerMinute = 60'000;
/// Most [[policy.tenant]]: one for each of a large site's users.
constexpr size_t kMostPolicyTenants = 10'000;

/// Reads the keys of one table, whose names begin with `prefix`.
void ReadTenantPolicy(TomlReader& reader, const std::string& prefix, TenantPolicy* policy) {
  reader.Integer(prefix + "most_priority", 0, 3, &policy->most_priority);
  reader.Measured(prefix + "most_bandwidth_floor", Measure::kRate, 0, kMostPolicyRate,
                  &policy->most_bandwidth_floor);
  reader.Measured(prefix + "most_bandwidth_cap", Measure::kRate, 0, kMostPolicyRate,
                  &policy->most_bandwidth_cap);
  reader.Integer(prefix + "most_elastic_ranks", 0, kMostPolicyRanks, &policy->most_elastic_ranks);
  reader.Integer(prefix + "most_processors", 0, kMostPolicyProcessors, &policy->most_processors);
  reader.Boolean(prefix + "spinning", &policy->spinning);
  reader.Boolean(prefix + "compression", &policy->compression);
  reader.Measured(prefix + "least_late_after", Measure::kDuration, 1e-3, kMostPolicySeconds,
                  &policy->least_late_after_seconds);
  reader.Measured(prefix + "least_checkpoint_interval", Measure::kDuration, 1, kMostPolicySeconds,
                  &policy->least_checkpoint_interval_seconds);
  reader.Integer(prefix + "changes_per_minute", 0, kMostChangesPerMinute,
                 &policy->changes_per_minute);
  const Requirements stated = ReadRequirementsAt(reader, prefix + "defaults.");
  policy->defaults = Merged(policy->defaults, stated);
}

std::string TenantPolicyText(const TenantPolicy& policy) {
  return fmt::format(
      R"(most_priority = {}               # the highest collectives.priority
most_bandwidth_floor = "{}"     # what the tenant's floors promise on a link together; 0: nothing
most_bandwidth_cap = "{}"       # what the tenant's jobs send over a link together; 0: no bound
most_elastic_ranks = {}          # to which elastic jobs are offered to grow together; 0: a share
most_processors = {}             # workers that work for one job at a time; 0: all
spinning = {}                # whether the engine keeps looking for jobs with objective = "latency"
compression = {}              # whether jobs may have sums compressed between hosts
least_late_after = "{}"     # the shortest faults.late_after
least_checkpoint_interval = "{}"  # the shortest checkpoint.interval, checkpoint.most_lost_work, and advice
changes_per_minute = {}         # the most changes of a job's requirements; each may plan anew
)",
      policy.most_priority, FormatMeasure(Measure::kRate, policy.most_bandwidth_floor),
      FormatMeasure(Measure::kRate, policy.most_bandwidth_cap), policy.most_elastic_ranks,
      policy.most_processors, policy.spinning, policy.compression,
      FormatMeasure(Measure::kDuration, policy.least_late_after_seconds),
      FormatMeasure(Measure::kDuration, policy.least_checkpoint_interval_seconds),
      policy.changes_per_minute);
}

/// Returns what jobs count as having said, as keys of the table that ends above.
std::string DefaultsText(const TenantPolicy& policy) {
  std::string text;
  for (const RequirementKey& key : RequirementKeys()) {
    const auto found = policy.defaults.values.find(key.name);
    if (found == policy.defaults.values.end()) continue;
    text += fmt::format("defaults.{} = {}\n", key.name, RequirementValueText(key, found->second));
  }
  return text;
}

}  // namespace

const TenantPolicy& PolicyConfig::For(uint32_t tenant) const {
  const auto found = std::find_if(tenants.begin(), tenants.end(),
                                  [tenant](const OfTenant& one) { return one.number == tenant; });
  return found == tenants.end() ? all : found->policy;
}

void ReadPolicy(TomlReader& reader, PolicyConfig* policy) {
  ReadTenantPolicy(reader, "policy.", &policy->all);
  const size_t count = reader.Tables("policy.tenant");
  if (count > kMostPolicyTenants) {
    return reader.Reject("policy.tenant",
                         fmt::format("there are {} [[policy.tenant]], and {} are the most", count,
                                     kMostPolicyTenants));
  }
  std::set<std::string> named;
  for (size_t i = 0; i < count; ++i) {
    const std::string key = fmt::format("policy.tenant[{}].", i);
    PolicyConfig::OfTenant one{.tenant = {}, .policy = policy->all};
    reader.String(key + "tenant", &one.tenant);
    if (one.tenant.empty()) {
      reader.Reject(key + "tenant",
                    "[[policy.tenant]] needs 'tenant', a user's name or number in quotes, as "
                    "tenant = \"1001\"");
    }
    const bool is_named = !one.tenant.empty() && !named.insert(one.tenant).second;
    if (is_named) {
      reader.Reject(key + "tenant",
                    fmt::format("there is another [[policy.tenant]] of '{}'", one.tenant));
    }
    ReadTenantPolicy(reader, key, &one.policy);
    policy->tenants.push_back(std::move(one));
  }
}

std::string PolicyTemplate(const PolicyConfig& policy) {
  std::string text = "[policy]\n" + TenantPolicyText(policy.all);
  const std::string defaults = DefaultsText(policy.all);
  text += defaults.empty() ? "# defaults.collectives.objective = \"throughput\"\n" : defaults;
  for (const PolicyConfig::OfTenant& one : policy.tenants) {
    text += fmt::format("[[policy.tenant]]\ntenant = {}\n{}{}", TomlText(one.tenant),
                        TenantPolicyText(one.policy), DefaultsText(one.policy));
  }
  if (policy.tenants.empty()) {
    text +=
        "# [[policy.tenant]]            # what it leaves out is as for all\n"
        "# tenant = \"alice\"\n# most_priority = 1\n";
  }
  return text;
}

}  // namespace harmonaize::daemon
