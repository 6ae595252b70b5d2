#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Reads `into` from a file, from `at` on, whole. Errors: kSystemError; kInvalidArgument where the
/// file is shorter. Both name it as `path`.
Status ReadWholeAt(int fd, uint64_t at, std::span<std::byte> into, std::string_view path);

}  // namespace harmonaize
