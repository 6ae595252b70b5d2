#pragma once

#include "daemon/checkpoint_advice/job_saves.h"
#include "daemon/checkpoint_advice/save_interval.h"
#include "daemon/checkpoint_advice/save_moment.h"
#include "daemon/job_events/job_events.h"

namespace harmonaize::daemon {

/// Returns what a job is told of a moment to save: checkpoint.advised. It says which ranks are at
/// risk, and nothing of their hosts.
JobEvents::News NewsOf(const SaveMoment& moment, const SaveInterval& interval, double now_seconds);

/// Returns what a job is told of a checkpoint that is safe: checkpoint.saved.
JobEvents::News NewsOf(const SavedReport& report);
/// Returns the event that tells of a checkpoint that is not safe. Requires: the report says why.
JobEvents::News FailureNewsOf(const SavedReport& report);

/// Returns a moment in one sentence, for people.
std::string SaveSentence(const SaveMoment& moment, const SaveInterval& interval,
                         double now_seconds);

}  // namespace harmonaize::daemon
