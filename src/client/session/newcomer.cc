#include "src/client/session/newcomer.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/base/settings.h"
#include "src/client/session/job_claim.h"
#include "src/client/session/session.h"
#include "src/ipc/ticket.h"
#include "src/ipc/ticket_file.h"

namespace harmonaize {
namespace {

/// The longest time, in milliseconds, for which one request waits at the daemon. Requests of other
/// threads of the process wait behind it.
constexpr uint64_t kMostWaitMs = 200;
/// The setting that names the file.
constexpr char kFileSetting[] = "HARMONAIZE_TICKET_FILE";
/// Digits of a job's id.
constexpr size_t kJobIdDigits = 32;

bool IsJobId(std::string_view job) {
  return job.size() == kJobIdDigits &&
         job.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Has the process belong to the job, unless it does already.
Status ClaimJobOf(std::string_view job) {
  if (job.empty()) return InvalidArgument("the job has no name: pass its name, or its id");
  // A process that knows the job by its id belongs to it as a rank.
  if (NameOfProcessJob() == job || IsJobId(job)) return Status::Ok();
  if (Session::Current() != nullptr) {
    return InvalidUsage(
        "the process belongs to another job already: call hzJoinJob before its first communicator");
  }
  return SetJob(job, "");
}

}  // namespace

Result<std::optional<JoinJobReply>> JoinJob(std::string_view job, std::string_view ticket,
                                            int timeout_ms) {
  HZ_RETURN_IF_ERROR(ParseTicket(ticket).status());
  HZ_RETURN_IF_ERROR(ClaimJobOf(job));
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Session::Get());
  JoinJobRequest request;
  SetFieldText(request.job, job);
  SetFieldText(request.ticket, ticket);
  const uint64_t begun_ns = MonotonicNanoseconds();
  while (true) {
    const uint64_t waited_ms = (MonotonicNanoseconds() - begun_ns) / 1'000'000;
    const uint64_t timeout = timeout_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ms);
    const uint64_t left_ms = timeout - std::min(timeout, waited_ms);
    request.wait_ms = static_cast<uint32_t>(std::min(left_ms, kMostWaitMs));
    HZ_ASSIGN_OR_RETURN(const JoinJobReply reply, session->Call<JoinJobReply>(request));
    if (reply.admitted != 0) return std::optional<JoinJobReply>(reply);
    if (left_ms <= kMostWaitMs) return std::optional<JoinJobReply>();
  }
}

Result<std::string> TicketOfProcess() {
  const char* const path = Setting(kFileSetting);
  if (path == nullptr || *path == '\0') {
    return InvalidArgument("ticket is NULL, and {} names no file: set it to the file of the ticket",
                           kFileSetting);
  }
  return ReadTicketFile(path);
}

}  // namespace harmonaize
