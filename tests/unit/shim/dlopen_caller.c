// Opens libraries from a folder of its own, which the program that it is linked to knows nothing
// of.
#include <dlfcn.h>
#include <stddef.h>

static void* opened_early;

/// Runs before the constructors of what is preloaded.
__attribute__((constructor)) static void OpenEarly(void) {
  opened_early = dlopen("libnccl.so", RTLD_NOW | RTLD_LOCAL);
}

__attribute__((visibility("default"))) void* shim_dlopen_early(void) {
  return opened_early;
}

__attribute__((visibility("default"))) void* shim_dlopen_from_caller(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  // Something stands behind the call, or it would be a jump, and the program the caller.
  return library != NULL && dlsym(library, "shim_dlopen_found") != NULL ? library : NULL;
}
