#pragma once

#include <cstddef>

namespace harmonaize::daemon {

/// The structures of the messages about one subject.
template <typename... Messages>
struct MessageList {
  static constexpr size_t kCount = sizeof...(Messages);
};

}  // namespace harmonaize::daemon
