// harmonaize.h: requirements.

#include "shim/requirements.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "include/harmonaize.h"
#include "shim/daemon_call.h"
#include "shim/face.h"
#include "shim/job_calls.h"
#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/client/session/job_claim.h"
#include "src/client/session/requirements_file.h"
#include "src/client/session/session.h"
#include "src/ipc/http_client.h"
#include "src/requirements/requirements.h"

namespace harmonaize::shim {
namespace {

/// Says what stock NCCL lacks.
constexpr char kNoRequirements[] = "has no requirements";

/// Returns the call that states requirements of a job.
HttpCall Statement(const std::string& job, const std::string& text) {
  return {.method = "PUT",
          .target = RouteOfJob(job, "/requirements"),
          .body = text,
          .content_type = "application/toml"};
}

Status SetRequirements(ncclComm_t comm, const char* text) {
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(comm, kNoRequirements));
  HZ_RETURN_IF_ERROR(CheckPointer(text, "text"));
  // Mistakes are found here, so that the error is the caller's, and nothing is sent.
  HZ_RETURN_IF_ERROR(ParseRequirements(text, "text").status());
  return CallDaemon(Statement(job, text)).status();
}

Status GetGranted(ncclComm_t comm, const char** json) {
  thread_local std::string granted;
  HZ_RETURN_IF_ERROR(CheckPointer(json, "json"));
  *json = "";
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(comm, kNoRequirements));
  HZ_ASSIGN_OR_RETURN(granted, CallDaemon({.target = RouteOfJob(job, "/granted")}));
  *json = granted.c_str();
  return Status::Ok();
}

/// Adds a number that is known to a JSON object's text.
void AddNumber(const char* name, double value, std::string* text) {
  if (std::isfinite(value)) *text += fmt::format(",\"{}\":{:.17g}", name, value);
}

Status ReportProgress(ncclComm_t comm, const hzProgress_t* progress) {
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(comm, kNoRequirements));
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
  return CallDaemon({.method = "POST", .target = RouteOfJob(job, "/progress"), .body = body + "}"})
      .status();
}

Status SetJobOfProcess(const char* name, const char* kind) {
  if (Session::Current() != nullptr) {
    return InvalidUsage(
        "the process has said which job it belongs to: call hzSetJob before its first "
        "communicator");
  }
  return SetJob(name == nullptr ? "" : name, kind == nullptr ? "" : kind);
}

/// Most shortfalls of a job that are told in its log, each with a line.
constexpr size_t kMostShortfallsTold = 16;
/// Most bytes of each text of the daemon in these lines.
constexpr size_t kMostTextBytes = 200;

/// Tells in the log what is not granted as asked. `granted` is the daemon's answer to a statement.
void TellShortfalls(const std::string& granted) {
  const nlohmann::json document = ReadJson(granted);
  const auto found = document.is_object() ? document.find("shortfalls") : document.end();
  if (found == document.end() || !found->is_array() || found->empty()) {
    return Log(LogLevel::kInfo, kLogInit, "the job's requirements are granted as asked");
  }
  const auto text_of = [](const nlohmann::json& one, const char* key) {
    const auto text = one.is_object() ? one.find(key) : one.end();
    const bool known = text != one.end() && text->is_string();
    return known ? CleanText(text->get<std::string>(), kMostTextBytes) : std::string("nothing");
  };
  size_t left = kMostShortfallsTold;
  for (const nlohmann::json& one : *found) {
    if (left-- == 0) break;
    Log(LogLevel::kWarning, kLogInit, "{}: asked {}, granted {}: {}", text_of(one, "key"),
        text_of(one, "asked"), text_of(one, "granted"), text_of(one, "why"));
  }
  if (found->size() > kMostShortfallsTold) {
    Log(LogLevel::kWarning, kLogInit, "{} more requirements are not as asked; see hzGetGranted",
        found->size() - kMostShortfallsTold);
  }
}

Status StateFile(const std::string& job, const std::string& text) {
  HZ_ASSIGN_OR_RETURN(const HttpReply reply, AskDaemonPatiently(Statement(job, text)));
  if (reply.status != 200) return InvalidUsage("{}", ProblemIn(reply));
  TellShortfalls(reply.body);
  return Status::Ok();
}

/// The jobs of this process of which its requirements were said.
class StatedJobs {
 public:
  /// Returns the object of this process. A forked child makes one of its own and never locks its
  /// parent's, whose lock a thread that the child lacks may hold.
  static StatedJobs& Get() {
    static std::atomic<StatedJobs*> current{nullptr};
    // Acquire: the object is seen whole by threads other than the one that made it.
    StatedJobs* jobs = current.load(std::memory_order_acquire);
    while (jobs == nullptr || jobs->process_ != getpid()) {
      auto made = std::make_unique<StatedJobs>();
      if (current.compare_exchange_strong(jobs, made.get(), std::memory_order_acq_rel)) {
        jobs = made.release();
      }
    }
    return *jobs;
  }

  StatedRequirements State(const Communicator& communicator, const std::string& text) {
    // Communicators of other threads wait: they are to begin with their requirements, too.
    const std::lock_guard lock(mutex_);
    std::erase_if(stated_, [](const auto& one) { return one.second.expired(); });
    const Key key{communicator.session().number(), communicator.job()};
    if (StatedRequirements kept = stated_[key].lock()) return kept;
    const Status taken = StateFile(communicator.job(), text);
    if (!taken.ok()) {
      Log(LogLevel::kWarning, kLogInit, "the job runs without its requirements: {}",
          taken.message());
      return nullptr;
    }
    auto stated = std::make_shared<const Key>(key);
    stated_[key] = stated;
    return stated;
  }

 private:
  /// Session::number and the id of a job. The session is a part of it, since a daemon that was
  /// started again has forgotten all statements.
  using Key = std::pair<uint64_t, std::string>;

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const void>> stated_;  // guarded by mutex_
};

}  // namespace

StatedRequirements StateRequirementsOfProcess(const Communicator& communicator) {
  const Result<ProcessRequirements>& file = RequirementsOfProcess();
  if (!file.ok() || file->text.empty() || communicator.job().empty()) return nullptr;
  return StatedJobs::Get().State(communicator, file->text);
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
