#pragma once

#include <memory>

#include "daemon/quota/holdings.h"
#include "daemon/tenant/region.h"
#include "src/base/status.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {

/// Maps what a RegisterRegionRequest brought. It is paid for before it is mapped, and until it has
/// been unmapped. One descriptor a region is what no tenant may use up for all: beyond a tenant's
/// share its regions work as well, but its ranks cannot map each other's. The kernel may keep the
/// calling thread waiting for as long as the tenant likes: it is to be the tenant's own.
/// Errors: those of MapAndSeal, and kInvalidUsage where a quota is used up.
Result<std::unique_ptr<RegionMemory>> MapRegion(Account& account, const MessageHeader& header,
                                                ControlMessage& message);

}  // namespace harmonaize::daemon
