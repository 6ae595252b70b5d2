#pragma once

#include "src/base/status.h"

namespace harmonaize::fabric {

/// Writes "fabric: MESSAGE" to standard error.
void Complain(const Status& status);

/// Returns the exit status for a command's result, after a complaint if it failed: 0, 2 when the
/// request is wrong, otherwise `failed`.
int Finish(const Status& status, int failed = 1);
/// Returns the command's own exit status, unless it failed.
int Finish(const Result<int>& status, int failed = 1);

}  // namespace harmonaize::fabric
