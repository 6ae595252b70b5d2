#include "daemon/cluster/messages/sizing.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "daemon/identity/job_identity.h"

namespace harmonaize::daemon {

namespace fields {
template <>
inline constexpr int kValueCount<JobGoal> = kJobGoalCount;
}  // namespace fields

using fields::AllSound;
using fields::InRange;
using fields::IsAmount;
using fields::kMostRanks;

HARMONAIZE_FIELDS(SpeedView, ranks, samples, step_seconds, exchange_seconds)
HARMONAIZE_FIELDS(JobSizeView, job, user, group, label, tenant, ranks_here, ranks, room, least,
                  most, step, notice_seconds, priority, goal, deadline_seconds, seen, samples_left,
                  gradient_noise_scale, change_seconds, is_asked, quiet_seconds)
HARMONAIZE_FIELDS(HostSizesMessage, host, places, free, coming, link_load, jobs)
HARMONAIZE_FIELDS(SizeOfferMessage, job, user, group, grows, ranks, least, answer_seconds,
                  due_seconds, latest_due_seconds, why, expected_step_seconds, confidence,
                  is_urgent)

/// Returns whether a number is a part, from 0 to 1.
static bool IsPart(double value) {
  return IsAmount(value) && value <= 1;
}

/// Returns whether a number counts at least one rank.
static bool IsSomeRanks(int ranks) {
  return ranks >= 1 && InRange(ranks, kMostRanks + 1);
}

bool IsSound(const SpeedView& speed) {
  return IsSomeRanks(speed.ranks) && IsAmount(speed.samples) && speed.samples > 0 &&
         IsAmount(speed.step_seconds) && speed.step_seconds > 0 &&
         IsAmount(speed.exchange_seconds) && speed.exchange_seconds <= speed.step_seconds;
}

bool IsSound(const JobSizeView& view) {
  const bool counts = InRange(view.ranks_here, kMostRanks + 1) &&
                      InRange(view.ranks, kMostRanks + 1) && view.ranks_here <= view.ranks &&
                      InRange(view.room, kMostRanks + 1) && (view.group != 0) == (view.ranks > 0);
  const bool bounds = IsSomeRanks(view.least) && view.most >= view.least && IsSomeRanks(view.step);
  const bool amounts = IsAmount(view.notice_seconds) && IsAmount(view.deadline_seconds) &&
                       IsAmount(view.samples_left) && IsAmount(view.gradient_noise_scale) &&
                       IsAmount(view.change_seconds) && IsAmount(view.quiet_seconds);
  return IsSomeEncodedJob(view.job) && counts && bounds && amounts &&
         view.seen.size() <= kMostSpeedsTold && AllSound(view.seen);
}

static bool IsSound(const HostSizesMessage& sizes) {
  return InRange(sizes.places, kMostRanks + 1) && InRange(sizes.free, sizes.places + 1) &&
         InRange(sizes.coming, kMostRanks + 1) && IsPart(sizes.link_load) &&
         sizes.jobs.size() <= kMostJobsInSizes && AllSound(sizes.jobs);
}

bool IsSound(const SizeOfferMessage& offer) {
  return IsSomeEncodedJob(offer.job) && IsSomeRanks(offer.ranks) && IsSomeRanks(offer.least) &&
         offer.least <= offer.ranks && IsAmount(offer.answer_seconds) &&
         IsAmount(offer.due_seconds) && offer.due_seconds >= offer.answer_seconds &&
         IsAmount(offer.latest_due_seconds) && offer.latest_due_seconds >= offer.due_seconds &&
         IsAmount(offer.expected_step_seconds) && IsPart(offer.confidence);
}

constinit const SubjectCodec kSizingCodec = fields::CodecOf(SizingMessages());

}  // namespace harmonaize::daemon
