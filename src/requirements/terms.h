#pragma once

#include <cstdint>
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
  std::vector<std::string> allowed_algorithms = {};  ///< Empty: all.
  std::vector<std::string> forbidden_algorithms = {};
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

/// What was granted to a job, in the form in which the daemon goes by it. Immutable.
class JobTerms {
 public:
  /// Those of a job that has said nothing.
  JobTerms() = default;
  /// `granted` is what the provider's policy has left of what was asked for. `may_look` tells
  /// whether it lets threads look for operations for long, whose objective is latency.
  explicit JobTerms(Requirements granted, bool may_look = false);

  const Requirements& granted() const { return granted_; }
  const FaultTerms& faults() const { return faults_; }
  const AdaptTerms& adapt() const { return adapt_; }
  /// Returns the terms of operations of this kind and size (bytes, as nccl-tests count them) on a
  /// communicator of this name.
  CollectiveTerms For(std::string_view communicator, Collective collective, uint64_t bytes) const;
  /// Returns the terms of a communicator's traffic, whatever its operations.
  SharingTerms SharingOf(std::string_view communicator) const;
  /// Returns how threads wait for a communicator's operations, whatever these are.
  Looking LookingOf(std::string_view communicator) const;
  bool may_look() const { return may_look_; }
  /// Returns sizes, in bytes and ascending from 0, from each of which on the terms of a
  /// communicator's operations may be others than below it.
  std::vector<uint64_t> SizesToTellApart(std::string_view communicator) const;

 private:
  CollectiveTerms ForAll(std::string_view communicator) const;

  Requirements granted_;
  bool may_look_ = false;
  FaultTerms faults_;
  AdaptTerms adapt_;
};

/// Returns whether a name is one that a pattern means, in which * stands for any characters.
bool MatchesPattern(std::string_view name, std::string_view pattern);

}  // namespace harmonaize
