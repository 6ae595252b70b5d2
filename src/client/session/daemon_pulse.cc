#include "src/client/session/daemon_pulse.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "src/base/log.h"
#include "src/base/settings.h"

namespace harmonaize {
namespace {

/// Nanoseconds between two signs, each of which may wake a daemon that sleeps.
constexpr uint64_t kBetweenSigns = 1'000'000'000;

/// Nanoseconds after which an unanswered sign is mentioned.
constexpr uint64_t kSlowAfter = 5'000'000'000;

constexpr uint64_t kDefaultTimeoutSeconds = 30;
/// Longest timeout that can be asked for, in seconds: a hundred days. 0 stands for ever.
constexpr uint64_t kMostTimeoutSeconds = 8'640'000;

uint64_t ReadTimeout() {
  const char* const value = Setting("HARMONAIZE_DAEMON_TIMEOUT");
  const std::string_view text = value == nullptr ? "" : value;
  uint64_t seconds = kDefaultTimeoutSeconds;
  if (!text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || seconds > kMostTimeoutSeconds) {
      Log(LogLevel::kWarning, kLogEnvironment,
          "HARMONAIZE_DAEMON_TIMEOUT is '{}', not a number of seconds: taken for {}", text,
          kDefaultTimeoutSeconds);
      seconds = kDefaultTimeoutSeconds;
    }
  }
  return seconds == 0 ? std::numeric_limits<uint64_t>::max() : seconds * 1'000'000'000;
}

}  // namespace

uint64_t DaemonTimeoutNanoseconds() {
  static const uint64_t timeout = ReadTimeout();
  return timeout;
}

DaemonPulse::Finding DaemonPulse::Look(SessionHeader* header, uint64_t now_ns) {
  // One thread's look serves all threads.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Finding::kAlive;
  const uint32_t sign = header->sign.load(std::memory_order_relaxed);
  // Another thread may have read the clock later than this one, and left its sign earlier.
  const uint64_t since_ns = now_ns - std::min(now_ns, asked_at_ns_);
  // Relaxed: the numbers stand for nothing else.
  if (header->answered_sign.load(std::memory_order_relaxed) == sign) {
    said_slow_ = false;
    if (since_ns < kBetweenSigns) return Finding::kAlive;
    header->sign.store(sign + 1, std::memory_order_relaxed);
    asked_at_ns_ = now_ns;
    return Finding::kRing;
  }
  if (since_ns >= DaemonTimeoutNanoseconds()) return Finding::kSilent;
  if (since_ns < kSlowAfter || said_slow_) return Finding::kAlive;
  said_slow_ = true;
  return Finding::kSlow;
}

}  // namespace harmonaize
