#include "writer/daemon_report.h"

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/http_client.h"
#include "src/ipc/socket_path.h"

namespace harmonaize::writer {
namespace {

/// Longest wait for the daemon's answer, in milliseconds: nobody needs it.
constexpr int kAnswerWithinMs = 2000;

void Report(const std::string& job, const nlohmann::json& body) {
  if (job.empty()) return;
  const Result<FileDescriptor> daemon = FindDaemonHttp(ClientSocketPlaces());
  if (!daemon.ok()) return;
  const HttpCall call = {.method = "POST",
                         .target = "/v1/jobs/" + EncodeForUrl(job) + "/checkpoints/reports",
                         .body = JsonText(body)};
  const Result<HttpReply> reply = CallHttp(*daemon, call, kAnswerWithinMs);
  if (!reply.ok()) {
    Log(LogLevel::kInfo, kLogInit, "the daemon was not told of a checkpoint: {}",
        reply.status().message());
  }
}

}  // namespace

void ReportCommit(const std::string& job, uint64_t step, double seconds, uint64_t bytes) {
  Report(job, {{"step", step}, {"where", "storage"}, {"seconds", seconds}, {"bytes", bytes}});
}

void ReportFailure(const std::string& job, uint64_t step, const std::string& message) {
  Report(job, {{"step", step}, {"where", "storage"}, {"failed", message}});
}

}  // namespace harmonaize::writer
