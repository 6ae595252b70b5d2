#pragma once

#include <cstddef>
#include <string>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

// Reads files whose names come from users. Such a name may be that of anything: nothing is waited
// for, and no more is read than is allowed.

/// Opens a regular file for reading; a pipe or a device is refused. Errors: kSystemError,
/// kInvalidUsage for what is no such file.
Result<FileDescriptor> OpenRegularFile(const std::string& path);

/// Reads all of a file that OpenRegularFile has opened. Errors: kSystemError, kInvalidUsage for one
/// of more than `most_bytes`.
Result<std::string> ReadToEnd(const FileDescriptor& file, const std::string& path,
                              size_t most_bytes);

/// Reads a regular file of at most `most_bytes`. Errors: as the two above.
Result<std::string> ReadSmallFile(const std::string& path, size_t most_bytes);

}  // namespace harmonaize
