#pragma once

#include "src/transport/message.h"

namespace harmonaize::daemon {

/// In the place of a peer: this daemon itself, to which the transport gives no number.
inline constexpr transport::PeerId kThisDaemon = 0;

}  // namespace harmonaize::daemon
