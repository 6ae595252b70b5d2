#pragma once

#include <string>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// Makes a new file that nobody else may read. Errors: kInvalidUsage if it is there already;
/// kSystemError.
Result<FileDescriptor> NewTicketFile(const std::string& path);

/// Writes a ticket to such a file, as HARMONAIZE_TICKET_FILE names it. Errors: likewise.
Status WriteTicketFile(const std::string& path, const std::string& ticket);

}  // namespace harmonaize
