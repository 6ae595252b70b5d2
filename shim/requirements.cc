// harmonaize.h: requirements.

#include "shim/requirements.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "include/harmonaize.h"
#include "shim/daemon_call.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/base/log.h"
#include "src/client/session/job_claim.h"
#include "src/client/session/requirements_file.h"
#include "src/client/session/session.h"
#include "src/ipc/http_client.h"
#include "src/requirements/requirements.h"

namespace harmonaize::shim {
namespace {

Result<std::string> JobOf(ncclComm_t comm) {
  HZ_RETURN_IF_ERROR(CheckHandle(comm));
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which has no requirements");
  std::string job = comm->communicator->job();
  if (job.empty()) return InvalidUsage("the communicator is not ready, so it has no job");
  return job;
}

/// Calls the route of a job that ends in `what`, and returns its answer.
Result<std::string> CallOfJob(const std::string& job, const char* what, HttpCall call) {
  call.target = "/v1/jobs/" + EncodeForUrl(job) + what;
  return CallDaemon(call);
}

Status StateOf(const std::string& job, const std::string& text) {
  return CallOfJob(
             job, "/requirements",
             {.method = "PUT", .target = {}, .body = text, .content_type = "application/toml"})
      .status();
}

Status SetRequirements(ncclComm_t comm, const char* text) {
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(comm));
  HZ_RETURN_IF_ERROR(CheckPointer(text, "text"));
  // Mistakes are found here, so that the error is the caller's, and nothing is sent.
  HZ_RETURN_IF_ERROR(ParseRequirements(text, "text").status());
  return StateOf(job, text);
}

Status GetGranted(ncclComm_t comm, const char** json) {
  thread_local std::string granted;
  HZ_RETURN_IF_ERROR(CheckPointer(json, "json"));
  *json = "";
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(comm));
  HZ_ASSIGN_OR_RETURN(granted, CallOfJob(job, "/granted", {}));
  *json = granted.c_str();
  return Status::Ok();
}

/// Adds a number that is known to a JSON object's text.
void AddNumber(const char* name, double value, std::string* text) {
  if (std::isfinite(value)) *text += fmt::format(",\"{}\":{:.17g}", name, value);
}

Status ReportProgress(ncclComm_t comm, const hzProgress_t* progress) {
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(comm));
  HZ_RETURN_IF_ERROR(CheckPointer(progress, "progress"));
  if (progress->size < sizeof(hzProgress_t)) {
    return InvalidArgument("progress->size is {}; begin with HZ_PROGRESS_INITIALIZER",
                           progress->size);
  }
  std::string body = fmt::format("{{\"step\":{}", progress->step);
  AddNumber("samples", progress->samples, &body);
  AddNumber("loss", progress->loss, &body);
  AddNumber("accuracy", progress->accuracy, &body);
  AddNumber("batch_size", progress->batch_size, &body);
  AddNumber("accumulation", progress->accumulation, &body);
  AddNumber("synchronisation_interval", progress->synchronisation_interval, &body);
  AddNumber("learning_rate_factor", progress->learning_rate_factor, &body);
  AddNumber("gradient_noise_scale", progress->gradient_noise_scale, &body);
  AddNumber("samples_in_all", progress->samples_in_all, &body);
  return CallOfJob(job, "/progress", {.method = "POST", .target = {}, .body = body + "}"}).status();
}

Status SetJobOfProcess(const char* name, const char* kind) {
  if (Session::Current() != nullptr) {
    return InvalidUsage(
        "the process has said which job it belongs to: call hzSetJob before its first "
        "communicator");
  }
  return SetJob(name == nullptr ? "" : name, kind == nullptr ? "" : kind);
}

}  // namespace

void StateRequirementsOfProcess(const Communicator& communicator) {
  const Result<ProcessRequirements>& stated = RequirementsOfProcess();
  if (!stated.ok() || stated->text.empty() || communicator.job().empty()) return;
  const Status taken = StateOf(communicator.job(), stated->text);
  if (taken.ok()) return;
  Log(LogLevel::kWarning, kLogInit, "the job runs without its requirements: {}", taken.message());
}

}  // namespace harmonaize::shim

using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_API(ncclResult_t) hzSetJob(const char* name, const char* kind) {
  return Call("hzSetJob", nullptr, [&] { return SetJobOfProcess(name, kind); });
}

HZ_API(ncclResult_t) hzSetRequirements(ncclComm_t comm, const char* text) {
  return Call("hzSetRequirements", comm, [&] { return SetRequirements(comm, text); });
}

HZ_API(ncclResult_t) hzGetGranted(ncclComm_t comm, const char** json) {
  return Call("hzGetGranted", comm, [&] { return GetGranted(comm, json); });
}

HZ_API(ncclResult_t) hzReportProgress(ncclComm_t comm, const hzProgress_t* progress) {
  return Call("hzReportProgress", comm, [&] { return ReportProgress(comm, progress); });
}
