#include "src/transport/ucx/ucx_library.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>

namespace harmonaize::transport {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

/// Restores the process's signal handlers on destruction.
class KeepSignalHandlers {
 public:
  KeepSignalHandlers() {
    for (int number = 1; number < NSIG; ++number) {
      known_[static_cast<size_t>(number)] = sigaction(number, nullptr, &Action(number)) == 0;
    }
  }
  ~KeepSignalHandlers() {
    for (int number = 1; number < NSIG; ++number) {
      if (known_[static_cast<size_t>(number)]) sigaction(number, &Action(number), nullptr);
    }
  }
  KeepSignalHandlers(const KeepSignalHandlers&) = delete;
  KeepSignalHandlers& operator=(const KeepSignalHandlers&) = delete;

 private:
  struct sigaction& Action(int number) {
    return actions_[static_cast<size_t>(number)];
  }

  std::array<struct sigaction, NSIG> actions_{};
  std::array<bool, NSIG> known_{};
};

Status CannotLoad() {
  const char* why = dlerror();
  return Unavailable("cannot load UCX ({}); install Debian's package libucx0",
                     why == nullptr ? kLibrary : why);
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

Result<const UcxLibrary*> LoadNow() {
  void* library = nullptr;
  {
    const KeepSignalHandlers keep;
    library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return CannotLoad();
  static UcxLibrary ucx;
  const bool complete =
      Find(library, "ucp_config_read", &ucx.config_read) &&
      Find(library, "ucp_config_modify", &ucx.config_modify) &&
      Find(library, "ucp_config_release", &ucx.config_release) &&
      Find(library, "ucp_init_version", &ucx.init_version) &&
      Find(library, "ucp_cleanup", &ucx.cleanup) &&
      Find(library, "ucp_worker_create", &ucx.worker_create) &&
      Find(library, "ucp_worker_destroy", &ucx.worker_destroy) &&
      Find(library, "ucp_worker_get_address", &ucx.worker_get_address) &&
      Find(library, "ucp_worker_release_address", &ucx.worker_release_address) &&
      Find(library, "ucp_worker_progress", &ucx.worker_progress) &&
      Find(library, "ucp_worker_get_efd", &ucx.worker_get_efd) &&
      Find(library, "ucp_worker_arm", &ucx.worker_arm) &&
      Find(library, "ucp_worker_set_am_recv_handler", &ucx.worker_set_am_recv_handler) &&
      Find(library, "ucp_ep_create", &ucx.ep_create) &&
      Find(library, "ucp_ep_close_nbx", &ucx.ep_close_nbx) &&
      Find(library, "ucp_am_send_nbx", &ucx.am_send_nbx) &&
      Find(library, "ucp_am_recv_data_nbx", &ucx.am_recv_data_nbx) &&
      Find(library, "ucp_am_data_release", &ucx.am_data_release) &&
      Find(library, "ucp_request_free", &ucx.request_free) &&
      Find(library, "ucp_request_cancel", &ucx.request_cancel) &&
      Find(library, "ucp_request_check_status", &ucx.request_check_status) &&
      Find(library, "ucp_mem_map", &ucx.mem_map) &&
      Find(library, "ucp_mem_unmap", &ucx.mem_unmap) &&
      Find(library, "ucs_status_string", &ucx.status_string);
  if (!complete) return CannotLoad();
  return &ucx;
}

}  // namespace

Result<const UcxLibrary*> UcxLibrary::Load() {
  static const Result<const UcxLibrary*> loaded = LoadNow();
  return loaded;
}

}  // namespace harmonaize::transport
