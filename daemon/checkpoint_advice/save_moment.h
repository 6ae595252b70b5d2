#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/checkpoint_advice/save_interval.h"
#include "daemon/checkpoint_advice/save_times.h"

namespace harmonaize::daemon {

/// What a checkpoint is to guard against.
enum class SaveReason : uint8_t {
  kReclaim,
  kMaintenance,
  kHostFailing,
  kLinkFailing,
  kServiceRestart,
  kPrice,
  kInterval,
  kRequest,  ///< The tenant or an operator wants it.
};
/// Returns the reason as checkpoint.advised has it in `why`.
std::string_view NameOf(SaveReason reason);

/// Something that may end the job, or ranks of it.
struct SaveNotice {
  std::string id;  ///< Unlike those of the job's other notices.
  SaveReason why = SaveReason::kMaintenance;
  /// When it happens, in seconds since 1970; nullopt: at any moment, as a host that is failing.
  std::optional<double> deadline_seconds = {};
  double told_seconds = 0;   ///< Since 1970: when the job was told of it.
  double confidence = 1;     ///< Probability that it happens.
  bool spares_host = false;  ///< Memory of the host outlives it.
  std::vector<int32_t> ranks = {};

  bool operator==(const SaveNotice&) const = default;
};

/// What is known of a job's checkpoints and dangers. Times are in seconds since 1970.
struct SaveView {
  double now_seconds = 0;
  /// Since when work may be lost that no checkpoint has: the job's begin.
  double began_seconds = 0;
  /// When it came again, after its ranks had gone; nullopt: it is the first run.
  std::optional<double> came_seconds = {};
  /// When the state of the newest checkpoint was taken that is safe, or will be in time: one at any
  /// place, and one that outlives hosts.
  std::optional<double> saved_seconds = {};
  std::optional<double> lasting_seconds = {};
  /// When a checkpoint of the interval was advised last: the next one comes an interval later,
  /// whether the job has followed or not.
  std::optional<double> advised_seconds = {};
  double interval_seconds = 0;
  double hazard_per_second = 0;
  double weight = 1;        ///< WeightOf.
  double step_seconds = 0;  ///< A checkpoint begins at the end of a step; 0: not known.
  SaveEstimate usual = {};
  SaveEstimate lasting = {};
  bool is_idle = false;  ///< The job's network has been idle for longer than it usually is.
  std::span<const SaveNotice> notices = {};
};

/// When to save, and why.
struct SaveMoment {
  SaveReason why = SaveReason::kInterval;
  std::string notice = {};  ///< SaveNotice::id; "": none.
  /// Whether a checkpoint can be safe in time. Otherwise it is not worth its stall.
  bool fits = true;
  double not_before_seconds = 0;  ///< Since 1970; at or before now: at once.
  double deadline_seconds = 0;    ///< Until when it should have begun.
  double confidence = 0;          ///< Probability that the checkpoint will be needed.
  Spread takes = {};              ///< How long it takes until it is safe.
  std::vector<int32_t> ranks = {};

  bool operator==(const SaveMoment&) const = default;
};

/// Returns the moments to save, the soonest first: one for each notice for which none that lies
/// near enough has been made, and the next one of the interval, unless a notice has one soon after.
///
/// A notice with a deadline is answered as late as a checkpoint is safe in time with a margin, so
/// that the least work is lost; one without is answered at once. A checkpoint lies near enough if
/// the work since is worth less, with the notice's probability, than the stall of another one.
std::vector<SaveMoment> MomentsOf(const SaveView& view);

/// Returns the failures in a second that conditions without a deadline add to a job's hazard.
double HazardOfNotices(std::span<const SaveNotice> notices);

/// Time, in seconds, within which what is announced without a deadline happens, if it does: what
/// clouds and monitoring call failing, or at risk, is decided within hours.
inline constexpr double kConditionSeconds = 2 * 3600;

}  // namespace harmonaize::daemon
