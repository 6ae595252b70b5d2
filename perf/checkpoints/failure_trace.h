#pragma once

#include <cstdint>
#include <vector>

namespace harmonaize::checkpoints {

/// One end of a job.
struct Failure {
  double at_seconds = 0;
  double notice_seconds = 0;  ///< How long before it is announced; 0: it is not.
  bool is_rank = false;       ///< A process of the job has failed, rather than a host.
};

/// How often a job fails.
struct FailureOptions {
  double hosts = 64;
  double per_thousand_host_days = 10;  ///< Failures of all kinds.
  /// Shape of the Weibull distribution of the times between failures: 1 is exponential, and with
  /// less a failure is more likely soon after another one.
  double shape = 1;
  double rank_part = 0.2;             ///< Part of the failures that are the job's own.
  double announced_part = 0.2;        ///< Part of the failures that are announced.
  double short_notice_seconds = 120;  ///< The notice of half of them: hosts that are taken back.
  double long_notice_seconds = 3600;  ///< The notice of the other half: maintenance.
  double seconds = 28 * 86400.0;
  uint64_t seed = 1;

  /// Returns the mean time between failures of the job, in seconds.
  double MtbfSeconds() const { return 1000 * 86400.0 / (hosts * per_thousand_host_days); }
};

/// Returns the failures of a job, the earliest first.
std::vector<Failure> MakeFailures(const FailureOptions& options);

}  // namespace harmonaize::checkpoints
