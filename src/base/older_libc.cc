// Functions that a C++ runtime calls which is linked statically, and that only newer C libraries
// than those of many containers have (scripts/check-libc.py). With these definitions a library or
// program that goes into containers needs no such function there.

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/random.h"

// Since glibc 2.36, for std::random_device, which comes along with other classes. Nobody calls
// it.
extern "C" uint32_t arc4random() noexcept {
  uint32_t number = 0;
  if (!harmonaize::FillRandom(std::as_writable_bytes(std::span(&number, 1))).ok()) abort();
  return number;
}

// Since glibc 2.35, for the unwinder of GCC 12 and later. Earlier unwinders walked over the loaded
// objects as this definition does. Each frame of an exception costs the loader's lock, and
// exceptions are rare here. Where the C library does not define the macro, no unwinder expects the
// function.
#ifdef DLFO_EH_SEGMENT_TYPE

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

/// Describes the object if it has the address. Returns 1 then, which ends the walk.
int Look(dl_phdr_info* object, size_t, void* data) {
  const Search& search = *static_cast<const Search*>(data);
  void* eh_frame = nullptr;
  bool has_address = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && search.address - start < segment.p_memsz) {
      has_address = true;
      search.found->dlfo_map_start = reinterpret_cast<void*>(start);
      search.found->dlfo_map_end = reinterpret_cast<void*>(start + segment.p_memsz);
    }
    if (segment.p_type == DLFO_EH_SEGMENT_TYPE) eh_frame = reinterpret_cast<void*>(start);
  }
  if (!has_address) return 0;
  search.found->dlfo_eh_frame = eh_frame;
  return 1;
}

}  // namespace

extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  *result = {};
  Search search{reinterpret_cast<uintptr_t>(address), result};
  dl_iterate_phdr(Look, &search);
  return result->dlfo_eh_frame != nullptr ? 0 : -1;
}

#endif
