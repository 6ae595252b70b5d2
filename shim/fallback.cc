#include "shim/fallback.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "shim/debug_log.h"
#include "shim/face.h"
#include "shim/loader.h"
#include "src/base/log.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/client/session/session.h"

namespace harmonaize::shim {

std::atomic<Route> route{Route::kUndecided};

namespace {

/// Set before `route` becomes kStock, and never closed: stock NCCL has threads of its own.
void* stock_library = nullptr;

std::string_view TextOf(const char* value) {
  return value != nullptr ? std::string_view(value) : std::string_view();
}

/// Returns the files to try: only the one that the user names, or else those in the loader's path
/// and where packages put NCCL. Never a bare name, for which the loader would return this library.
std::vector<std::string> Candidates() {
  const std::string_view named = TextOf(Setting("HARMONAIZE_NCCL_LIBRARY"));
  if (!named.empty()) return {std::string(named)};
  std::vector<std::string> files;
  std::string_view rest = TextOf(secure_getenv("LD_LIBRARY_PATH"));
  while (!rest.empty()) {
    const size_t end = rest.find_first_of(":;");
    const std::string_view directory = rest.substr(0, end);
    if (!directory.empty()) files.push_back(std::string(directory) + "/libnccl.so.2");
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  for (const char* directory :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64", "/usr/lib", "/usr/local/lib"}) {
    files.push_back(std::string(directory) + "/libnccl.so.2");
  }
  return files;
}

/// Opens `file` unless it is one of our own libraries, under any name.
Result<void*> OpenUnlessOurs(const std::string& file) {
  // Local, so that its symbols do not replace ours for libraries that are loaded later. Bypasses a
  // dlopen of our own, which would return this library.
  void* library = LoadersDlopen()(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return SystemError("{}", dlerror());
  if (dlsym(library, "hzGetVersion") != nullptr) {
    dlclose(library);
    return InvalidUsage("{} is Harmonaize itself", file);
  }
  if (dlsym(library, "ncclCommInitRank") == nullptr) {
    dlclose(library);
    return InvalidUsage("{} is not NCCL", file);
  }
  return library;
}

Result<void*> OpenStock() {
  std::string reasons;
  for (const std::string& file : Candidates()) {
    const Result<void*> library = OpenUnlessOurs(file);
    if (library.ok()) {
      Log(LogLevel::kInfo, kLogInit, "HARMONAIZE_FALLBACK=nccl: every call goes to {}", file);
      return *library;
    }
    reasons += (reasons.empty() ? "" : "; ") + library.status().message();
  }
  return Unavailable("stock NCCL was not found: {}", reasons);
}

Route Decide() noexcept try {
  ReadDebugEnvironment();
  const std::string_view fallback = TextOf(Setting("HARMONAIZE_FALLBACK"));
  if (fallback.empty() || fallback == "none") return Route::kDaemon;
  if (fallback != "nccl") {
    Log(LogLevel::kWarning, kLogEnvironment, "HARMONAIZE_FALLBACK={}: not 'nccl' or 'none'",
        fallback);
    return Route::kDaemon;
  }
  const Status daemon = Session::Get().status();
  if (daemon.code() != Code::kUnavailable) return Route::kDaemon;
  Log(LogLevel::kInfo, kLogInit, "{}", daemon.message());
  const Result<void*> library = OpenStock();
  if (!library.ok()) {
    // The calls that need the daemon report why they fail; this reports why the fallback did not
    // help.
    Log(LogLevel::kWarning, kLogInit, "{}", library.status().message());
    return Route::kDaemon;
  }
  stock_library = *library;
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
  void* function = dlsym(stock_library, name);
  if (function == nullptr) {
    Call(name, nullptr,
         [] { return InvalidUsage("the stock NCCL that was loaded has no such function"); });
  }
  return function;
}

}  // namespace harmonaize::shim
