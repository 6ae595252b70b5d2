#pragma once

#include "daemon/http/audit_log.h"
#include "daemon/http/http_exchange.h"

namespace harmonaize::daemon {

/// Writes down what a request of an operator has changed, or has tried to, once its outcome is
/// known: whether the caller is still there to hear it does not matter. `audit`: nullptr for none.
///
/// What was not looked at, because its caller asks too often, changed nothing. Holders of
/// operators' other tokens can change nothing, so they get no lines by which they could push out
/// those of others. Thread: any.
void AuditRequest(AuditLog* audit, const HttpRequest& request, const HttpResponse& response);

}  // namespace harmonaize::daemon
