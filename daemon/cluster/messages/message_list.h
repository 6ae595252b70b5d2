#pragma once

namespace harmonaize::daemon {

/// The structures of the messages about one subject.
template <typename... Messages>
struct MessageList {};

}  // namespace harmonaize::daemon
