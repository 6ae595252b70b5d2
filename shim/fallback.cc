#include "shim/fallback.h"

#include <dlfcn.h>

#include <mutex>
#include <string_view>

#include "shim/debug_log.h"
#include "shim/face.h"
#include "shim/stock_library.h"
#include "src/base/log.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/client/session/session.h"

namespace harmonaize::shim {

std::atomic<Route> route{Route::kUndecided};

namespace {

std::string_view TextOf(const char* value) {
  return value != nullptr ? std::string_view(value) : std::string_view();
}

/// Returns whether communicators whose ranks all use a GPU go to stock NCCL though a daemon is
/// there.
bool CarriesCuda() {
  const std::string_view cuda = TextOf(Setting("HARMONAIZE_CUDA"));
  if (cuda.empty() || cuda == "auto") return true;
  if (cuda != "off") {
    Log(LogLevel::kWarning, kLogEnvironment, "HARMONAIZE_CUDA={}: not 'auto' or 'off'", cuda);
  }
  return false;
}

Route Decide() noexcept try {
  ReadDebugEnvironment();
  const std::string_view fallback = TextOf(Setting("HARMONAIZE_FALLBACK"));
  const Route with_daemon = CarriesCuda() ? Route::kBoth : Route::kDaemon;
  if (fallback.empty() || fallback == "none") return with_daemon;
  if (fallback != "nccl") {
    Log(LogLevel::kWarning, kLogEnvironment, "HARMONAIZE_FALLBACK={}: not 'nccl' or 'none'",
        fallback);
    return with_daemon;
  }
  const Status daemon = Session::Get().status();
  if (daemon.code() != Code::kUnavailable) return with_daemon;
  Log(LogLevel::kInfo, kLogInit, "{}", daemon.message());
  const Result<void*>& library = StockLibrary();
  if (!library.ok()) {
    // The calls that need the daemon report why they fail; this reports why the fallback did not
    // help.
    Log(LogLevel::kWarning, kLogInit, "{}", library.status().message());
    return Route::kDaemon;
  }
  Log(LogLevel::kInfo, kLogInit, "HARMONAIZE_FALLBACK=nccl: every call goes to stock NCCL");
  return Route::kStock;
} catch (...) {
  // Out of memory: the calls that need the daemon will report it.
  return Route::kDaemon;
}

}  // namespace

Route DecideRoute() noexcept {
  static std::once_flag once;
  std::call_once(once, [] { route.store(Decide(), std::memory_order_release); });
  return route.load(std::memory_order_acquire);
}

void* FindInStock(const char* name) noexcept {
  const Result<void*>& library = StockLibrary();
  void* function = library.ok() ? dlsym(*library, name) : nullptr;
  if (function == nullptr) {
    Call(name, nullptr,
         [] { return InvalidUsage("the stock NCCL that was loaded has no such function"); });
  }
  return function;
}

}  // namespace harmonaize::shim
