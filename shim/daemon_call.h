#pragma once

#include <string>

#include "src/base/status.h"
#include "src/ipc/http_client.h"

namespace harmonaize::shim {

/// Calls the HTTP interface of this host's daemon, and returns its answer, which must come within a
/// few seconds and may be a refusal. Errors: none answers.
Result<HttpReply> AskDaemon(const HttpCall& call);

/// Does what AskDaemon does, and asks again, for two seconds at most, while the daemon answers that
/// it is asked too often.
Result<HttpReply> AskDaemonPatiently(const HttpCall& call);

/// Calls the HTTP interface of this host's daemon, and returns the body of its answer, which must
/// come within a few seconds. Errors: none answers; kInvalidUsage, with the daemon's reason, if it
/// refuses.
Result<std::string> CallDaemon(const HttpCall& call);

}  // namespace harmonaize::shim
