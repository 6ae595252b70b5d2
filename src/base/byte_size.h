#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// "64M", "1GiB", "4096": bytes, in powers of 1024. kInvalidArgument says what would do.
Result<uint64_t> ParseBytes(const std::string& text);

}  // namespace harmonaize
