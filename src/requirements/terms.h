#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/collective.h"
#include "src/base/looking.h"
#include "src/requirements/requirements.h"

namespace harmonaize {

/// What plans are chosen for.
enum class Objective : uint8_t { kBalanced = 0, kLatency, kThroughput, kEnergy };

/// What the traffic of a communicator gets of the links that it shares with others.
struct SharingTerms {
  int priority = 0;  ///< 0 to 3; a higher one goes first.
  /// Rate that the whole job gets on each of its links whenever it has so much to send, in bytes
  /// per second; 0: none is promised.
  double floor_bytes_per_second = 0;
  /// Rate that the whole job does not exceed on any link, in bytes per second; 0: no limit.
  double cap_bytes_per_second = 0;

  bool operator==(const SharingTerms&) const = default;
};

/// Formats that sums may have on the way between hosts.
struct CompressionTerms {
  bool bf16 = false;
  bool fp8 = false;
  /// Largest error of a result, as a part of the largest sum of magnitudes in its block; by default
  /// that of bf16 on the way through a few hosts.
  double error_bound = 0.01;

  bool operator==(const CompressionTerms&) const = default;
};

/// How operations are carried out, by what the provider has granted. The defaults are those of a
/// job that has said nothing.
struct CollectiveTerms {
  Objective objective = Objective::kBalanced;
  double deadline_seconds = 0;  ///< Longest time of an operation; 0: there is none.
  double percentile = 99;       ///< Percentage of operations that are to keep the deadline.
  /// Names; nullptr: all. The lists are valid while the JobTerms are that they come from.
  const std::vector<std::string>* allowed_algorithms = nullptr;
  const std::vector<std::string>* forbidden_algorithms = nullptr;  ///< nullptr: none.
  bool reproducible = false;
  bool may_go_inline = true;
  int processors = 0;  ///< Most of the daemon's workers at a time; 0: all.
  CompressionTerms compression = {};
  SharingTerms sharing = {};

  bool operator==(const CollectiveTerms&) const = default;
};

/// What follows when ranks are late or lost.
struct FaultTerms {
  double late_after_seconds = 0;     ///< 0: the provider's.
  double give_up_after_seconds = 0;  ///< 0: never.
  bool shrinks_on_loss = false;      ///< Ranks that are left stay in good standing, to shrink.

  /// Returns the first in nanoseconds.
  uint64_t late_after_ns() const { return static_cast<uint64_t>(late_after_seconds * 1e9); }

  bool operator==(const FaultTerms&) const = default;
};

/// Within which ranges the provider may advise a job that trains, and what for.
struct AdaptTerms {
  std::optional<ValueRange> batch_size = {};
  std::optional<ValueRange> accumulation = {};
  std::optional<ValueRange> synchronisation_interval = {};
  std::optional<ValueRange> learning_rate_factor = {};
  /// When the job has to be done, in seconds since 1970; nullopt: that is not its goal.
  std::optional<double> deadline = {};
};

/// What a tenant wants most of a job.
enum class JobGoal : uint8_t { kFastest = 0, kCheapest, kDeadline };
inline constexpr int kJobGoalCount = 3;

/// Between which sizes a job may change, and how it answers offers.
struct ElasticTerms {
  enum class Offers : uint8_t { kAsk = 0, kAccept, kDecline };
  int64_t least_ranks = 1;
  int64_t most_ranks = INT32_MAX;
  int64_t step = 1;           ///< Ranks come and leave by multiples of it.
  double notice_seconds = 0;  ///< What the job needs before ranks leave.
  Offers offers = Offers::kAsk;
  bool was_stated = false;  ///< The job has said something in [elastic].
};

/// How often a job wants to save, and what a lost checkpoint means to it. What is not stated
/// follows from what is measured.
struct CheckpointTerms {
  enum class Importance : uint8_t { kLow = 0, kNormal, kHigh };
  std::optional<double> interval_seconds = {};
  Importance importance = Importance::kNormal;
  std::optional<double> stall_seconds = {};      ///< What a checkpoint costs, as the tenant says.
  std::optional<double> most_lost_seconds = {};  ///< Work that a failure may cost.
  std::optional<double> overhead_cap = {};       ///< Part of the time that checkpoints may take.
  int64_t keep = 0;                              ///< How many are kept; 0: it has not said.
  /// The places where checkpoints may lie, and their form; nullptr: it has not said. They are valid
  /// while the JobTerms are that they come from.
  const std::vector<std::string>* places = nullptr;
  const std::string* format = nullptr;
  bool was_stated = false;  ///< The job has said something in [checkpoint].
};

/// What one table says of how operations are carried out, and of which operations it says so.
struct CollectiveStatement {
  /// Reads [collectives] or an override, whose keys have this prefix in the table. The table
  /// outlives this object.
  CollectiveStatement(const RequirementTable& table, const std::string& prefix);

  /// Returns whether it is about a communicator of this name.
  bool IsOf(std::string_view name) const;
  /// Returns whether it is about operations of this kind and size.
  bool IsOf(Collective kind, uint64_t bytes) const;
  /// Returns whether it is about some of a communicator's operations only.
  bool IsOfSomeOperations() const { return collective.has_value() || sizes.has_value(); }
  /// Replaces what it says something of.
  void ApplyTo(CollectiveTerms* terms) const;

  const std::string* communicator = nullptr;  ///< A pattern; nullptr: all.
  std::optional<Collective> collective = {};
  std::optional<ValueRange> sizes = {};

  std::optional<Objective> objective = {};
  std::optional<double> deadline_seconds = {};
  std::optional<double> percentile = {};
  const std::vector<std::string>* allowed_algorithms = nullptr;
  const std::vector<std::string>* forbidden_algorithms = nullptr;
  std::optional<bool> reproducible = {};
  std::optional<bool> may_go_inline = {};
  std::optional<int> processors = {};
  std::optional<bool> bf16 = {};
  std::optional<bool> fp8 = {};
  std::optional<double> error_bound = {};
  std::optional<int> priority = {};
  std::optional<double> floor_bytes_per_second = {};
  std::optional<double> cap_bytes_per_second = {};
};

/// What was granted to a job, in the form in which the daemon goes by it: tables are read once, so
/// that to look something up takes no long time whatever a tenant has written. Immutable.
class JobTerms {
 public:
  /// Those of a job that has said nothing.
  JobTerms() : JobTerms(Requirements{}) {}
  /// `granted` is what the provider's policy has left of what was asked for. `may_look` tells
  /// whether it lets threads look for operations for long, whose objective is latency.
  explicit JobTerms(Requirements granted, bool may_look = false);
  JobTerms(const JobTerms&) = delete;
  JobTerms& operator=(const JobTerms&) = delete;

  const Requirements& granted() const { return granted_; }
  const FaultTerms& faults() const { return faults_; }
  const AdaptTerms& adapt() const { return adapt_; }
  const ElasticTerms& elastic() const { return elastic_; }
  const CheckpointTerms& checkpoint() const { return checkpoint_; }
  JobGoal goal() const { return goal_; }
  bool may_look() const { return may_look_; }
  /// The terms of operations of which no override says anything.
  const CollectiveTerms& whole() const { return whole_; }
  /// In the order of the document: later ones go before earlier ones.
  const std::vector<CollectiveStatement>& overrides() const { return overrides_; }

  /// Returns the terms of a communicator's traffic, whatever its operations.
  SharingTerms SharingOf(std::string_view communicator) const;
  /// Returns how threads wait for a communicator's operations, whatever these are.
  Looking LookingOf(std::string_view communicator) const;

 private:
  CollectiveTerms ForAllOf(std::string_view communicator) const;

  const Requirements granted_;
  const bool may_look_;
  FaultTerms faults_;
  AdaptTerms adapt_;
  ElasticTerms elastic_;
  CheckpointTerms checkpoint_;
  JobGoal goal_ = JobGoal::kFastest;
  CollectiveTerms whole_;
  std::vector<CollectiveStatement> overrides_;
};

/// The terms of one communicator's operations: its overrides are found by its name once. A plain
/// value.
class CommunicatorTerms {
 public:
  CommunicatorTerms(std::shared_ptr<const JobTerms> job, std::string_view communicator);

  const std::shared_ptr<const JobTerms>& job() const { return job_; }
  /// Returns the terms of operations of this kind and size (bytes, as nccl-tests count them).
  CollectiveTerms For(Collective collective, uint64_t bytes) const;
  /// Returns the bytes of the smallest operation of this kind that is not to go inline; nullopt if
  /// all are.
  std::optional<uint64_t> LeastOutsideInline(Collective collective) const;

 private:
  bool MayGoInline(Collective collective, uint64_t bytes) const;

  std::shared_ptr<const JobTerms> job_;
  std::vector<const CollectiveStatement*> overrides_;  // those of the communicator
};

/// Returns whether a name is one that a pattern means, in which * stands for any characters.
bool MatchesPattern(std::string_view name, std::string_view pattern);

}  // namespace harmonaize
