#include "src/requirements/terms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

namespace harmonaize {
namespace {

template <typename Value>
const Value* Find(const RequirementTable& table, std::string_view key) {
  const auto found = table.find(key);
  return found == table.end() ? nullptr : std::get_if<Value>(&found->second);
}

template <typename Value, typename Out>
void Take(const RequirementTable& table, const std::string& key, Out* out) {
  if (const Value* const value = Find<Value>(table, key)) *out = static_cast<Out>(*value);
}

Objective ObjectiveNamed(std::string_view name) {
  if (name == "latency") return Objective::kLatency;
  if (name == "throughput") return Objective::kThroughput;
  if (name == "energy") return Objective::kEnergy;
  return Objective::kBalanced;
}

std::optional<Collective> CollectiveNamed(const std::string* name) {
  if (name == nullptr) return std::nullopt;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    if (*name == CollectiveName(static_cast<Collective>(i))) return static_cast<Collective>(i);
  }
  return std::nullopt;
}

/// Returns whether a table has a key that begins so.
bool SaysAnythingOf(const RequirementTable& table, std::string_view prefix) {
  const auto first = table.lower_bound(prefix);
  return first != table.end() && first->first.starts_with(prefix);
}

template <typename Value>
void Replace(const std::optional<Value>& by, Value* value) {
  if (by.has_value()) *value = *by;
}

}  // namespace

CollectiveStatement::CollectiveStatement(const RequirementTable& table, const std::string& prefix) {
  using Names = std::vector<std::string>;
  if (prefix.empty()) {
    communicator = Find<std::string>(table, "communicator");
    collective = CollectiveNamed(Find<std::string>(table, "collective"));
    Take<ValueRange>(table, "sizes", &sizes);
  }
  if (const auto* const name = Find<std::string>(table, prefix + "objective")) {
    objective = ObjectiveNamed(*name);
  }
  if (const double* const deadline = Find<double>(table, prefix + "deadline_us")) {
    deadline_seconds = *deadline * 1e-6;
  }
  Take<double>(table, prefix + "percentile", &percentile);
  allowed_algorithms = Find<Names>(table, prefix + "algorithms.allow");
  forbidden_algorithms = Find<Names>(table, prefix + "algorithms.forbid");
  Take<bool>(table, prefix + "reproducible", &reproducible);
  Take<bool>(table, prefix + "inline", &may_go_inline);
  Take<int64_t>(table, prefix + "processors", &processors);
  if (const auto* const formats = Find<Names>(table, prefix + "compression.allow")) {
    const auto has = [formats](std::string_view name) {
      return std::find(formats->begin(), formats->end(), name) != formats->end();
    };
    bf16 = has("bf16");
    fp8 = has("fp8");
  }
  Take<double>(table, prefix + "compression.error_bound", &error_bound);
  Take<int64_t>(table, prefix + "priority", &priority);
  Take<double>(table, prefix + "bandwidth_floor", &floor_bytes_per_second);
  Take<double>(table, prefix + "bandwidth_cap", &cap_bytes_per_second);
}

bool CollectiveStatement::IsOf(std::string_view name) const {
  return communicator == nullptr || MatchesPattern(name, *communicator);
}

bool CollectiveStatement::IsOf(Collective kind, uint64_t bytes) const {
  if (collective.has_value() && *collective != kind) return false;
  const auto size = static_cast<double>(bytes);
  return !sizes.has_value() || (size >= sizes->least && size <= sizes->most);
}

void CollectiveStatement::ApplyTo(CollectiveTerms* terms) const {
  Replace(objective, &terms->objective);
  Replace(deadline_seconds, &terms->deadline_seconds);
  Replace(percentile, &terms->percentile);
  if (allowed_algorithms != nullptr) terms->allowed_algorithms = allowed_algorithms;
  if (forbidden_algorithms != nullptr) terms->forbidden_algorithms = forbidden_algorithms;
  Replace(reproducible, &terms->reproducible);
  Replace(may_go_inline, &terms->may_go_inline);
  Replace(processors, &terms->processors);
  Replace(bf16, &terms->compression.bf16);
  Replace(fp8, &terms->compression.fp8);
  Replace(error_bound, &terms->compression.error_bound);
  Replace(priority, &terms->sharing.priority);
  Replace(floor_bytes_per_second, &terms->sharing.floor_bytes_per_second);
  Replace(cap_bytes_per_second, &terms->sharing.cap_bytes_per_second);
}

// ---------------------------------------------------------------------------------------------
// A job's terms

static ElasticTerms ElasticIn(const RequirementTable& values) {
  ElasticTerms terms;
  Take<int64_t>(values, "elastic.least_ranks", &terms.least_ranks);
  Take<int64_t>(values, "elastic.most_ranks", &terms.most_ranks);
  Take<int64_t>(values, "elastic.step", &terms.step);
  Take<double>(values, "elastic.notice", &terms.notice_seconds);
  if (const auto* const offers = Find<std::string>(values, "elastic.offers")) {
    if (*offers == "accept") terms.offers = ElasticTerms::Offers::kAccept;
    if (*offers == "decline") terms.offers = ElasticTerms::Offers::kDecline;
  }
  terms.was_stated = SaysAnythingOf(values, "elastic.");
  return terms;
}

static CheckpointTerms CheckpointIn(const RequirementTable& values) {
  CheckpointTerms terms;
  Take<double>(values, "checkpoint.interval", &terms.interval_seconds);
  Take<double>(values, "checkpoint.cost", &terms.stall_seconds);
  Take<double>(values, "checkpoint.most_lost_work", &terms.most_lost_seconds);
  Take<double>(values, "checkpoint.overhead_cap", &terms.overhead_cap);
  Take<int64_t>(values, "checkpoint.keep", &terms.keep);
  if (const auto* const importance = Find<std::string>(values, "checkpoint.importance")) {
    using enum CheckpointTerms::Importance;
    if (*importance == "low") terms.importance = kLow;
    if (*importance == "high") terms.importance = kHigh;
  }
  terms.places = Find<std::vector<std::string>>(values, "checkpoint.where");
  terms.format = Find<std::string>(values, "checkpoint.format");
  terms.was_stated = SaysAnythingOf(values, "checkpoint.");
  return terms;
}

JobTerms::JobTerms(Requirements granted, bool may_look)
    : granted_(std::move(granted)), may_look_(may_look) {
  const RequirementTable& values = granted_.values;
  Take<double>(values, "faults.late_after", &faults_.late_after_seconds);
  Take<double>(values, "faults.give_up_after", &faults_.give_up_after_seconds);
  const auto* const on_loss = Find<std::string>(values, "faults.on_rank_loss");
  faults_.shrinks_on_loss = on_loss != nullptr && *on_loss == "shrink";
  Take<ValueRange>(values, "adapt.batch_size", &adapt_.batch_size);
  Take<ValueRange>(values, "adapt.accumulation", &adapt_.accumulation);
  Take<ValueRange>(values, "adapt.synchronisation_interval", &adapt_.synchronisation_interval);
  Take<ValueRange>(values, "adapt.learning_rate_factor", &adapt_.learning_rate_factor);
  const auto* const goal = Find<std::string>(values, "job.goal");
  if (goal != nullptr && *goal == "cheapest") goal_ = JobGoal::kCheapest;
  if (goal != nullptr && *goal == "deadline") {
    goal_ = JobGoal::kDeadline;
    Take<double>(values, "job.deadline", &adapt_.deadline);
  }
  elastic_ = ElasticIn(values);
  checkpoint_ = CheckpointIn(values);
  CollectiveStatement(values, "collectives.").ApplyTo(&whole_);
  overrides_.reserve(granted_.overrides.size());
  for (const RequirementTable& table : granted_.overrides) overrides_.emplace_back(table, "");
}

CollectiveTerms JobTerms::ForAllOf(std::string_view communicator) const {
  CollectiveTerms terms = whole_;
  for (const CollectiveStatement& statement : overrides_) {
    if (!statement.IsOfSomeOperations() && statement.IsOf(communicator)) statement.ApplyTo(&terms);
  }
  return terms;
}

SharingTerms JobTerms::SharingOf(std::string_view communicator) const {
  return ForAllOf(communicator).sharing;
}

Looking JobTerms::LookingOf(std::string_view communicator) const {
  switch (ForAllOf(communicator).objective) {
    case Objective::kLatency: return may_look_ ? Looking::kForLong : Looking::kAsItPays;
    case Objective::kEnergy: return Looking::kNever;
    case Objective::kBalanced:
    case Objective::kThroughput: break;
  }
  return Looking::kAsItPays;
}

// ---------------------------------------------------------------------------------------------
// A communicator's terms

CommunicatorTerms::CommunicatorTerms(std::shared_ptr<const JobTerms> job,
                                     std::string_view communicator)
    : job_(std::move(job)) {
  for (const CollectiveStatement& statement : job_->overrides()) {
    if (statement.IsOf(communicator)) overrides_.push_back(&statement);
  }
}

CollectiveTerms CommunicatorTerms::For(Collective collective, uint64_t bytes) const {
  CollectiveTerms terms = job_->whole();
  for (const CollectiveStatement* const statement : overrides_) {
    if (statement->IsOf(collective, bytes)) statement->ApplyTo(&terms);
  }
  return terms;
}

bool CommunicatorTerms::MayGoInline(Collective collective, uint64_t bytes) const {
  for (auto it = overrides_.rbegin(); it != overrides_.rend(); ++it) {
    const std::optional<bool>& said = (*it)->may_go_inline;
    if (said.has_value() && (*it)->IsOf(collective, bytes)) return *said;
  }
  return job_->whole().may_go_inline;
}

// What is said of inline changes where a range of sizes begins, and behind its end.
std::optional<uint64_t> CommunicatorTerms::LeastOutsideInline(Collective collective) const {
  std::set<uint64_t> sizes = {0};
  for (const CollectiveStatement* const statement : overrides_) {
    if (!statement->may_go_inline.has_value() || !statement->sizes.has_value()) continue;
    sizes.insert(static_cast<uint64_t>(std::ceil(statement->sizes->least)));
    sizes.insert(static_cast<uint64_t>(std::floor(statement->sizes->most)) + 1);
  }
  const auto outside = std::find_if(
      sizes.begin(), sizes.end(), [&](uint64_t bytes) { return !MayGoInline(collective, bytes); });
  return outside == sizes.end() ? std::nullopt : std::optional(*outside);
}

bool MatchesPattern(std::string_view name, std::string_view pattern) {
  constexpr size_t kNone = std::string_view::npos;
  size_t star = kNone;
  size_t taken = 0;  // characters of the name that the last * stands for, with all before it
  size_t at = 0;
  size_t in_pattern = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      taken = at;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[at]) {
      ++in_pattern;
      ++at;
    } else if (star != kNone) {
      in_pattern = star + 1;
      at = ++taken;
    } else {
      return false;
    }
  }
  while (in_pattern < pattern.size() && pattern[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern.size();
}

}  // namespace harmonaize
