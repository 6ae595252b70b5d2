#pragma once

#include <memory>

#include "daemon/quota/holdings.h"
#include "daemon/tenant/region.h"
#include "src/base/status.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {

/// Maps the memory that a RegisterRegionRequest brought. The tenant pays for it before it is
/// mapped, and until it has been unmapped. The region keeps its descriptor while the tenant's quota
/// of descriptors allows it; beyond that the region works as well, but other ranks cannot map it.
/// Requires: the thread is the tenant's own, since the kernel may keep it waiting for as long as
/// the tenant likes. Returns the errors of MapAndSeal and MissingPages::Refuse, and kInvalidUsage
/// if a quota is used up.
Result<std::unique_ptr<RegionMemory>> MapRegion(Account& account, const MessageHeader& header,
                                                ControlMessage& message);

/// Takes over the memory that a LendBufferRequest brought, for which the tenant pays until it is
/// given back. It is not mapped: the daemon reads it by its descriptor, if at all, so that pages
/// which the tenant takes away are no fault. Requires: as MapRegion. Returns the errors of
/// MapAndSeal, and kInvalidUsage if a quota is used up.
Result<std::unique_ptr<RegionMemory>> TakeBuffer(Account& account, const MessageHeader& header,
                                                 ControlMessage& message);

/// Maps the ring that an OpenProfileRequest brought, or the position of an OpenTuningRequest, as
/// MapRegion does a region. Requires: as MapRegion. Returns the errors of MapRegion.
Result<std::unique_ptr<RegionMemory>> MapProfileRing(Account& account, const MessageHeader& header,
                                                     ControlMessage& message);
Result<std::unique_ptr<RegionMemory>> MapTuningPosition(Account& account,
                                                        const MessageHeader& header,
                                                        ControlMessage& message);

}  // namespace harmonaize::daemon
