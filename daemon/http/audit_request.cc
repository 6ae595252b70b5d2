#include "daemon/http/audit_request.h"

#include "daemon/http/http_target.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {

void AuditRequest(AuditLog* audit, const HttpRequest& request, const HttpResponse& response) {
  if (audit == nullptr || request.method == "GET" || response.status == 429) return;
  const HttpScope scope = request.caller.scope;
  if (scope == HttpScope::kOperatorReadOnly || scope == HttpScope::kMetrics) {
    return audit->CountRefusal(request.caller.name);
  }
  if (scope != HttpScope::kOperator) return;
  audit->Add({UnixSeconds(), request.caller.name, request.method, EncodeHttpPath(request.path),
              response.status, response.note});
}

}  // namespace harmonaize::daemon
