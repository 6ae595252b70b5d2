#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Writes all of `text` to a descriptor that blocks. Errors: kSystemError, named by `path`.
Status WriteWhole(int fd, std::string_view text, const std::string& path);

}  // namespace harmonaize
