#include "shim/loader.h"

#include <dlfcn.h>

#include <atomic>

namespace harmonaize::shim {
namespace {

void* NoDlopen(const char* /*file*/, int /*mode*/) {
  return nullptr;
}

}  // namespace

DlopenFunction LoadersDlopen() noexcept {
  // Constant-initialized, so it exists before constructors run. Threads that race here find the
  // same function.
  static constinit std::atomic<DlopenFunction> found = nullptr;
  DlopenFunction function = found.load(std::memory_order_relaxed);
  if (function != nullptr) return function;
  function = reinterpret_cast<DlopenFunction>(dlsym(RTLD_NEXT, "dlopen"));
  if (function == nullptr) function = &NoDlopen;
  found.store(function, std::memory_order_relaxed);
  return function;
}

}  // namespace harmonaize::shim
