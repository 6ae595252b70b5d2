#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Returns a TCP port that was free a moment ago at this IPv4 address of this host. More cannot be
/// known before a program listens there.
Result<uint16_t> FreePort(const std::string& address);

}  // namespace harmonaize
