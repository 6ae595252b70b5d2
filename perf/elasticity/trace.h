#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace harmonaize::elasticity {

/// A public trace whose published statistics jobs are drawn by.
enum class Pattern : uint8_t { kHelios, kPai, kPhilly };

/// Returns the pattern of this name, as "helios"; nullopt for another text.
std::optional<Pattern> PatternNamed(std::string_view name);

/// What a job's steps take, in seconds: what the SpeedModel of the daemon is to find out.
struct Scaling {
  double computation = 1;  ///< Of one rank alone, as far as ranks divide it.
  double fixed = 0;        ///< What no number of ranks divides.
  double bytes = 0;        ///< Of an exchange of many ranks, for its bytes.
  double hop = 0;          ///< Of an exchange, for each rank but one.

  double ExchangeSeconds(int32_t ranks) const;
  double StepSeconds(int32_t ranks) const;
};

/// A job that is to come. A plain value.
struct TraceJob {
  double arrives_seconds = 0;
  int32_t ranks = 1;  ///< That it asks for, and has if its size is static.
  double steps = 1;   ///< Until it is done, whatever its size.
  Scaling scaling = {};
  bool is_elastic = false;
  int32_t least = 1;
  int32_t most = 1;
  double state_bytes = 0;  ///< That a new rank is sent.

  /// Returns how long it runs with the ranks that it asks for.
  double StaticSeconds() const { return steps * scaling.StepSeconds(ranks); }
};

struct TraceOptions {
  Pattern pattern = Pattern::kHelios;
  int jobs = 500;
  int32_t places = 128;     ///< Of the cluster that they come to.
  double load = 0.8;        ///< The part of the places that they would fill with static sizes.
  double elastic_part = 1;  ///< The part of the jobs that is elastic.
  uint64_t seed = 1;
};

/// Returns jobs in the order in which they come. The same seed gives the same jobs, whichever of
/// them are elastic: those of a smaller part are elastic with a larger one, too.
std::vector<TraceJob> MakeTrace(const TraceOptions& options);

}  // namespace harmonaize::elasticity
