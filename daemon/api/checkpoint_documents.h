#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "daemon/checkpoint_advice/checkpoint_advisor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

struct Job;

/// Returns what a job should know of when to save. It names ranks, and no hosts.
nlohmann::json AdviceDocument(const Job& job, const CheckpointAdvice& advice);
/// Returns one moment to save.
nlohmann::json MomentDocument(const SaveMoment& moment, const CheckpointAdvice& advice);

/// Reads the body of a report. Errors: those of JsonBody; kInvalidArgument for a step that is no
/// whole number.
Result<SavedReport> SavedReportIn(const std::string& body);

}  // namespace harmonaize::daemon
