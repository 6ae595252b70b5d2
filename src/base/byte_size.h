#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Parses bytes, in powers of 1024: "64M", "1GiB", "4096". Errors: kInvalidArgument, with what
/// would do.
Result<uint64_t> ParseBytes(const std::string& text);

}  // namespace harmonaize
