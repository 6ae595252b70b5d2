#pragma once

#include "src/transport/message.h"

namespace harmonaize::daemon {

/// Stands for this daemon itself in the place of a peer; the transport gives this number to none.
inline constexpr transport::PeerId kThisDaemon = 0;

}  // namespace harmonaize::daemon
