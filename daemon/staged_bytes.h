#pragma once

#include <cstdint>

namespace harmonaize {
class FabricModel;
}

namespace harmonaize::daemon {

/// MemberSlot::staged_bytes where data goes to other hosts. Workers copy what is large, while the
/// network carries what they have copied. But where links carry more than processors send, there
/// is nothing to wait for; and where a host has one processor, nobody to copy meanwhile: then
/// ranks, who only wait, copy what is large as well, in one go.
///
/// `fabric` is nullptr where there is no fabric file; `shared_processors` as in NetworkCosts, 0: a
/// host has as many as `workers`.
uint64_t StagedBytesAcrossHosts(const FabricModel* fabric, int64_t shared_processors,
                                int64_t workers);

}  // namespace harmonaize::daemon
