#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "daemon/communicator/communicator.h"
#include "daemon/diagnosis/verdict.h"

namespace harmonaize::daemon {

/// Describes why an operation of a communicator does not end. It names ranks and communicators, and
/// no host, address or process, so that a tenant may read it. Thread: engine.
nlohmann::json DescribeVerdict(const Communicator& communicator, const Verdict& verdict,
                               uint64_t now_ns);

}  // namespace harmonaize::daemon
