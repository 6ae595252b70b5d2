#pragma once

#include <cstddef>
#include <string>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Reads a regular file of at most `most_bytes`. Nothing else is waited for: a pipe or a device is
/// refused. Errors: kSystemError, kInvalidUsage for what is no such file.
Result<std::string> ReadSmallFile(const std::string& path, size_t most_bytes);

}  // namespace harmonaize::daemon
