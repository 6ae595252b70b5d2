#pragma once

#include "src/base/status.h"

namespace harmonaize::fabric {

/// Writes "fabric: MESSAGE" to standard error.
void Complain(const Status& status);

/// The exit status for how a command ended, after a complaint when that was not well: 0, 2 when
/// what was asked for is wrong, otherwise `failed`.
int Finish(const Status& status, int failed = 1);
/// The command's own exit status, unless it failed.
int Finish(const Result<int>& status, int failed = 1);

}  // namespace harmonaize::fabric
