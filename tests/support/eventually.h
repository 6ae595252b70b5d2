#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace harmonaize::testing {

/// Asks until it holds, for so many seconds. Returns whether it did.
inline bool Eventually(double seconds, const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace harmonaize::testing
