#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// A TCP port that was free a moment ago at this IPv4 address of this host; that is as much as can
/// be known before somebody listens there.
Result<uint16_t> FreePort(const std::string& address);

}  // namespace harmonaize
