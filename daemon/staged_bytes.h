#pragma once

#include <cstdint>

namespace harmonaize::daemon {

/// MemberSlot::staged_bytes of a communicator on so many `hosts`, more than one. Workers copy what
/// is large, while the network carries what they have copied. But where a host has one processor
/// there is nobody to copy meanwhile, and every slice would cost switches to workers and back: then
/// ranks, who only wait, copy what is large as well (SliceProgress).
///
/// `shared_processors` as in NetworkCosts, 0: a host has as many as `workers`.
uint64_t StagedBytesAcrossHosts(int hosts, int64_t shared_processors, int64_t workers);

}  // namespace harmonaize::daemon
