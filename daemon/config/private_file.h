#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns the text of a file that only this user and root could have written; nullopt if there is
/// no file. Errors name the file: it is a link or no plain file, a stranger owns it or may write
/// it, it is longer than `most_bytes`, or it cannot be read.
Result<std::optional<std::string>> ReadPrivateFile(const std::string& path, size_t most_bytes);

/// Makes the folder if need be, and replaces the file `name` in it by one of mode 0600 that holds
/// `text`. The new file is on the disk when the call returns, and readers see the old file or the
/// new one, whole. Takes as long as the disk does.
Status ReplacePrivateFile(const std::string& folder, const std::string& name,
                          std::string_view text);

}  // namespace harmonaize::daemon
