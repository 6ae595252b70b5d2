#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Returns the text of a ticket's file, without spaces and line ends behind it. Errors: those of
/// OpenRegularFile and ReadToEnd; kInvalidUsage for a file that is another user's, or that others
/// may read: a ticket is a secret.
Result<std::string> ReadTicketFile(const std::string& path);

}  // namespace harmonaize
