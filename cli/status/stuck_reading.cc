#include "cli/status/stuck_reading.h"

#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "src/base/json_text.h"
#include "src/ipc/http_client.h"

namespace harmonaize {

Result<std::string> FetchStuck(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(socket));
  if (daemon.as_operator) return CallDaemon(daemon, {.target = "/v1/stuck"});
  HZ_ASSIGN_OR_RETURN(const Json jobs, GetDocument(daemon, "/v1/jobs"));
  Json all = {{"verdicts", Json::array()}};
  for (const Json& job : ListAt(jobs, "jobs")) {
    const Json& id = At(job, "id");
    if (CountAt(job, "stuck") == 0 || !id.is_string()) continue;
    const Result<Json> stuck =
        GetDocument(daemon, "/v1/jobs/" + EncodeForUrl(id.get<std::string>()) + "/stuck");
    // The job may have gone meanwhile.
    if (stuck.status().code() == Code::kInvalidUsage) continue;
    if (!stuck.ok()) return stuck.status();
    for (const Json& verdict : ListAt(*stuck, "verdicts")) all["verdicts"].push_back(verdict);
  }
  return JsonText(all);
}

}  // namespace harmonaize
