#include "shim/cuda_context.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "shim/loader.h"

namespace harmonaize::shim {
namespace {

/// Devices whose primary context is looked at: more than a host has.
constexpr int kMostDevices = 64;

thread_local bool uses_host_memory = false;

/// Functions of CUDA's driver API; nullptr where the process has no driver.
struct CudaDriver {
  int (*get_current)(void** context) = nullptr;
  int (*set_current)(void* context) = nullptr;
  int (*get_device_count)(int* count) = nullptr;
  int (*get_primary_state)(int device, unsigned* flags, int* active) = nullptr;
};

template <typename Function>
void Find(void* driver, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(driver, name));
}

CudaDriver FindDriver() {
  CudaDriver found;
  // The handle is kept: the driver must stay loaded while its functions may be called.
  void* const driver = LoadersDlopen()("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return found;
  Find(driver, "cuCtxGetCurrent", &found.get_current);
  Find(driver, "cuCtxSetCurrent", &found.set_current);
  Find(driver, "cuDeviceGetCount", &found.get_device_count);
  Find(driver, "cuDevicePrimaryCtxGetState", &found.get_primary_state);
  return found;
}

bool SomePrimaryContextIsActive(const CudaDriver& driver) {
  int devices = 0;
  if (driver.get_device_count == nullptr || driver.get_primary_state == nullptr) return false;
  if (driver.get_device_count(&devices) != 0) return false;
  for (int device = 0; device < std::min(devices, kMostDevices); ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver.get_primary_state(device, &flags, &active) == 0 && active != 0) return true;
  }
  return false;
}

}  // namespace

bool CudaContext::SetUsesHostMemory(bool host) {
  return std::exchange(uses_host_memory, host);
}

CudaContext CudaContext::OfThisThread() {
  CudaContext context;
  if (uses_host_memory) return context;
  const CudaDriver driver = FindDriver();
  if (driver.get_current == nullptr || driver.set_current == nullptr) return context;
  if (driver.get_current(&context.context_) != 0) context.context_ = nullptr;
  context.usable_ = context.context_ != nullptr || SomePrimaryContextIsActive(driver);
  return context;
}

Status CudaContext::MakeCurrent() const {
  if (context_ == nullptr) return Status::Ok();
  const int error = FindDriver().set_current(context_);
  if (error == 0) return Status::Ok();
  return SystemError("the CUDA driver cannot make the rank's context current: error {}", error);
}

}  // namespace harmonaize::shim
