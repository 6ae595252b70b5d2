#pragma once

#include <atomic>
#include <type_traits>

#include "include/nccl.h"

/// \file
/// Forwards calls to stock NCCL, if no daemon listens and HARMONAIZE_FALLBACK=nccl allows it. This
/// is decided once for the process, at the first call that could differ between the two, because
/// one library cannot use the communicators, groups or buffers of the other. Where a daemon
/// listens, each communicator goes one way or the other: see adoption.h.

namespace harmonaize::shim {

enum class Route : int {
  kUndecided = 0,
  kDaemon,
  kStock,  ///< Stock NCCL is loaded and gets every call.
  kBoth,   ///< Each communicator is the daemon's, or is carried by stock NCCL.
};

extern std::atomic<Route> route;

/// Makes the choice, or waits for the thread that makes it. It also reads the debugging variables,
/// because it is the first thing that a process does with us.
Route DecideRoute() noexcept;

/// Returns whether calls go to stock NCCL. One load once the choice has been made.
inline bool Forwarding() noexcept {
  // Acquire: a thread that sees kStock also sees the library that was opened before it was stored.
  const Route chosen = route.load(std::memory_order_acquire);
  return (chosen == Route::kUndecided ? DecideRoute() : chosen) == Route::kStock;
}

/// Returns whether a communicator may be carried by stock NCCL beside the daemon.
inline bool ServesBoth() noexcept {
  const Route chosen = route.load(std::memory_order_acquire);
  return (chosen == Route::kUndecided ? DecideRoute() : chosen) == Route::kBoth;
}

/// Returns the function `name` in stock NCCL; NULL, with the last error set, when it has none.
void* FindInStock(const char* name) noexcept;

/// A function of stock NCCL, looked up once.
template <typename Function>
class StockFunction;
template <typename Return, typename... Arguments>
class StockFunction<Return(Arguments...)> {
 public:
  explicit StockFunction(const char* name)
      : function_(reinterpret_cast<Return (*)(Arguments...)>(FindInStock(name))) {}

  Return operator()(Arguments... arguments) const {
    if (function_ != nullptr) return function_(arguments...);
    if constexpr (std::is_same_v<Return, ncclResult_t>) {
      return ncclInvalidUsage;
    } else {
      return Return();
    }
  }

 private:
  Return (*const function_)(Arguments...);
};

}  // namespace harmonaize::shim

/// Returns from the API function with the result of stock NCCL, when calls go there.
#define HZ_FORWARD(function, ...)                                                           \
  if (::harmonaize::shim::Forwarding()) {                                                   \
    static const ::harmonaize::shim::StockFunction<decltype(p##function)> stock(#function); \
    return stock(__VA_ARGS__);                                                              \
  }                                                                                         \
  static_assert(true)

/// Does what HZ_FORWARD does, for functions that need no daemon and therefore do not make the
/// choice.
#define HZ_FORWARD_IF_DECIDED(function, ...)                       \
  if (::harmonaize::shim::route.load(std::memory_order_acquire) != \
      ::harmonaize::shim::Route::kUndecided) {                     \
    HZ_FORWARD(function, __VA_ARGS__);                             \
  }                                                                \
  static_assert(true)
