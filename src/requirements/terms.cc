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

void TakeSharing(const RequirementTable& table, const std::string& prefix, SharingTerms* terms) {
  Take<int64_t>(table, prefix + "priority", &terms->priority);
  Take<double>(table, prefix + "bandwidth_floor", &terms->floor_bytes_per_second);
  Take<double>(table, prefix + "bandwidth_cap", &terms->cap_bytes_per_second);
}

/// Takes in what a table says of [collectives], whose keys have this prefix there.
void TakeCollectives(const RequirementTable& table, const std::string& prefix,
                     CollectiveTerms* terms) {
  if (const auto* objective = Find<std::string>(table, prefix + "objective")) {
    terms->objective = ObjectiveNamed(*objective);
  }
  if (const double* deadline = Find<double>(table, prefix + "deadline_us")) {
    terms->deadline_seconds = *deadline * 1e-6;
  }
  Take<double>(table, prefix + "percentile", &terms->percentile);
  using Names = std::vector<std::string>;
  Take<Names>(table, prefix + "algorithms.allow", &terms->allowed_algorithms);
  Take<Names>(table, prefix + "algorithms.forbid", &terms->forbidden_algorithms);
  Take<bool>(table, prefix + "reproducible", &terms->reproducible);
  Take<bool>(table, prefix + "inline", &terms->may_go_inline);
  Take<int64_t>(table, prefix + "processors", &terms->processors);
  if (const auto* formats = Find<Names>(table, prefix + "compression.allow")) {
    const auto has = [formats](std::string_view name) {
      return std::find(formats->begin(), formats->end(), name) != formats->end();
    };
    terms->compression.bf16 = has("bf16");
    terms->compression.fp8 = has("fp8");
  }
  Take<double>(table, prefix + "compression.error_bound", &terms->compression.error_bound);
  TakeSharing(table, prefix, &terms->sharing);
}

bool IsOfCommunicator(const RequirementTable& statement, std::string_view communicator) {
  const auto* const pattern = Find<std::string>(statement, "communicator");
  return pattern == nullptr || MatchesPattern(communicator, *pattern);
}

bool IsOfOperation(const RequirementTable& statement, Collective collective, uint64_t bytes) {
  const auto* const name = Find<std::string>(statement, "collective");
  if (name != nullptr && *name != CollectiveName(collective)) return false;
  const auto* const sizes = Find<ValueRange>(statement, "sizes");
  const auto size = static_cast<double>(bytes);
  return sizes == nullptr || (size >= sizes->least && size <= sizes->most);
}

bool IsOfSomeOperations(const RequirementTable& statement) {
  return statement.contains("collective") || statement.contains("sizes");
}

}  // namespace

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
  if (goal != nullptr && *goal == "deadline")
    Take<double>(values, "job.deadline", &adapt_.deadline);
}

CollectiveTerms JobTerms::For(std::string_view communicator, Collective collective,
                              uint64_t bytes) const {
  CollectiveTerms terms;
  TakeCollectives(granted_.values, "collectives.", &terms);
  for (const RequirementTable& statement : granted_.overrides) {
    if (!IsOfCommunicator(statement, communicator)) continue;
    if (IsOfOperation(statement, collective, bytes)) TakeCollectives(statement, "", &terms);
  }
  return terms;
}

CollectiveTerms JobTerms::ForAll(std::string_view communicator) const {
  CollectiveTerms terms;
  TakeCollectives(granted_.values, "collectives.", &terms);
  for (const RequirementTable& statement : granted_.overrides) {
    if (IsOfSomeOperations(statement)) continue;
    if (IsOfCommunicator(statement, communicator)) TakeCollectives(statement, "", &terms);
  }
  return terms;
}

SharingTerms JobTerms::SharingOf(std::string_view communicator) const {
  return ForAll(communicator).sharing;
}

Looking JobTerms::LookingOf(std::string_view communicator) const {
  switch (ForAll(communicator).objective) {
    case Objective::kLatency: return may_look_ ? Looking::kForLong : Looking::kAsItPays;
    case Objective::kEnergy: return Looking::kNever;
    case Objective::kBalanced:
    case Objective::kThroughput: break;
  }
  return Looking::kAsItPays;
}

std::vector<uint64_t> JobTerms::SizesToTellApart(std::string_view communicator) const {
  std::set<uint64_t> sizes = {0};
  for (const RequirementTable& statement : granted_.overrides) {
    const auto* const range = Find<ValueRange>(statement, "sizes");
    if (range == nullptr || !IsOfCommunicator(statement, communicator)) continue;
    sizes.insert(static_cast<uint64_t>(std::ceil(range->least)));
    sizes.insert(static_cast<uint64_t>(std::floor(range->most)) + 1);
  }
  return {sizes.begin(), sizes.end()};
}

// Goes back to the last * when what follows it does not fit: the time grows with the product of the
// lengths, of which each is 128 at most.
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
