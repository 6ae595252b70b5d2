#include "daemon/api/requirement_documents.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/measure.h"
#include "src/base/time_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Returns one number of a value of this kind: a text where it has a unit.
json NumberOf(RequirementKind kind, double number) {
  switch (kind) {
    case RequirementKind::kDuration: return FormatMeasure(Measure::kDuration, number);
    case RequirementKind::kRate: return FormatMeasure(Measure::kRate, number);
    case RequirementKind::kSize:
    case RequirementKind::kSizeRange: return FormatMeasure(Measure::kSize, number);
    case RequirementKind::kTime: return TimeText(static_cast<int64_t>(number * 1e9));
    case RequirementKind::kCountRange: return static_cast<int64_t>(number);
    default: return number;
  }
}

json ValueOf(const RequirementKey& key, const RequirementValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
  if (const bool* yes = std::get_if<bool>(&value)) return *yes;
  if (const int64_t* count = std::get_if<int64_t>(&value)) return *count;
  if (const double* number = std::get_if<double>(&value)) return NumberOf(key.kind, *number);
  const ValueRange& range = std::get<ValueRange>(value);
  return {NumberOf(key.kind, range.least), NumberOf(key.kind, range.most)};
}

json TableOf(const RequirementTable& table, std::span<const RequirementKey> keys) {
  json document = json::object();
  for (const RequirementKey& key : keys) {
    const auto found = table.find(key.name);
    if (found != table.end()) document[std::string(key.name)] = ValueOf(key, found->second);
  }
  return document;
}

json ListOf(const std::vector<RequirementTable>& tables, std::span<const RequirementKey> keys) {
  json list = json::array();
  for (const RequirementTable& table : tables) list.push_back(TableOf(table, keys));
  return list;
}

json OfJob(const RequirementsView& view) {
  return {{"job", view.job}, {"name", view.name}, {"changes", view.changes}};
}

/// Adds shortfalls to a list of them.
void AddShortfalls(const std::vector<Shortfall>& shortfalls, json* list) {
  for (const Shortfall& one : shortfalls) {
    list->push_back({{"key", one.key},
                     {"asked", one.asked},
                     {"granted", one.granted.empty() ? json() : json(one.granted)},
                     {"why", one.why}});
  }
}

}  // namespace

json DescribeRequirements(const Requirements& requirements) {
  return {{"values", TableOf(requirements.values, RequirementKeys())},
          {"overrides", ListOf(requirements.overrides, OverrideKeys())},
          {"launches", ListOf(requirements.launches, LaunchKeys())},
          {"text", RequirementsText(requirements)}};
}

json DescribeGrant(const Grant& grant) {
  json document = DescribeRequirements(grant.granted);
  document["shortfalls"] = json::array();
  AddShortfalls(grant.shortfalls, &document["shortfalls"]);
  return document;
}

json StatedDocument(const RequirementsView& view) {
  json document = OfJob(view);
  document.update(DescribeRequirements(*view.stated));
  return document;
}

json GrantedDocument(const RequirementsView& view) {
  json document = OfJob(view);
  document.update(DescribeGrant(*view.grant));
  AddShortfalls(view.more_shortfalls, &document["shortfalls"]);
  return document;
}

json ProgressDocument(const JobAdvisor& advisor, const Job& job) {
  const auto known = [](const std::optional<double>& value) {
    return value.has_value() ? json(*value) : json();
  };
  const JobProgress* const told = advisor.Find(job);
  const JobProgress progress = told == nullptr ? JobProgress() : *told;
  const ProgressReport last = progress.last().value_or(ProgressReport{});
  const std::optional<StepTimes> recent = progress.RecentTimes();
  return {{"job", job.id.text()},
          {"name", job.name},
          {"step", progress.last().has_value() ? json(last.step) : json()},
          {"samples", known(last.samples)},
          {"loss", known(last.loss)},
          {"accuracy", known(last.accuracy)},
          {"batch_size", known(last.settings.batch_size)},
          {"accumulation", known(last.settings.accumulation)},
          {"synchronisation_interval", known(last.settings.synchronisation_interval)},
          {"learning_rate_factor", known(last.settings.learning_rate_factor)},
          {"gradient_noise_scale", known(last.gradient_noise_scale)},
          {"samples_in_all", known(last.samples_in_all)},
          {"step_seconds", known(progress.StepSeconds())},
          {"exchange_seconds", recent.has_value() ? json(recent->exchange_seconds) : json()}};
}

json DescribePolicy(const TenantPolicy& policy) {
  return {{"most_priority", policy.most_priority},
          {"most_bandwidth_floor", FormatMeasure(Measure::kRate, policy.most_bandwidth_floor)},
          {"most_bandwidth_cap", FormatMeasure(Measure::kRate, policy.most_bandwidth_cap)},
          {"most_elastic_ranks", policy.most_elastic_ranks},
          {"most_processors", policy.most_processors},
          {"spinning", policy.spinning},
          {"compression", policy.compression},
          {"least_late_after", FormatMeasure(Measure::kDuration, policy.least_late_after_seconds)},
          {"least_checkpoint_interval",
           FormatMeasure(Measure::kDuration, policy.least_checkpoint_interval_seconds)},
          {"changes_per_minute", policy.changes_per_minute},
          {"defaults", TableOf(policy.defaults.values, RequirementKeys())}};
}

json DescribePolicies(const PolicyConfig& policy) {
  json document = {{"policy", DescribePolicy(policy.all)}, {"tenants", json::array()}};
  for (const PolicyConfig::OfTenant& one : policy.tenants) {
    json of_tenant = DescribePolicy(one.policy);
    of_tenant["tenant"] = one.tenant;
    of_tenant["exists"] = one.number.has_value();
    document["tenants"].push_back(std::move(of_tenant));
  }
  document["text"] = PolicyTemplate(policy);
  return document;
}

}  // namespace harmonaize::daemon
