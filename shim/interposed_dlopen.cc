// dlopen of the preload library. A program that opens NCCL by another name than our SONAME
// ("libnccl.so", or a path) would get stock NCCL beside us; here it gets this library. All other
// names go on to the loader by a jump, not by a call: the loader reads the return address to learn
// which library asks, because that library's RUNPATH and $ORIGIN decide what is found.

#include <dlfcn.h>

#include <string_view>

#include "shim/loader.h"
#include "src/base/settings.h"

namespace harmonaize::shim {
namespace {

/// Returns whether the file's base name is libnccl.so, or libnccl.so.* with any version.
bool NamesNccl(std::string_view file) {
  constexpr std::string_view kName = "libnccl.so";
  const size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  if (!file.starts_with(kName)) return false;
  file.remove_prefix(kName.size());
  return file.empty() || file.front() == '.';
}

bool SwitchedOff() {
  const char* const value = Setting("HARMONAIZE_DLOPEN");
  return value != nullptr && std::string_view(value) == "off";
}

/// Returns a handle of this library, as dlopen would: counted, and with the caller's `mode`.
void* OpenOurselves(const char* /*file*/, int mode) {
  Dl_info here = {};
  if (dladdr(reinterpret_cast<void*>(&OpenOurselves), &here) == 0) return nullptr;
  // The loader knows us by this name, so no file is searched for.
  return LoadersDlopen()(here.dli_fname, mode | RTLD_NOLOAD);
}

}  // namespace
}  // namespace harmonaize::shim

/// Returns the function that is to answer dlopen(file, mode). May run before any constructor of
/// ours.
extern "C" [[gnu::used, gnu::visibility("hidden")]] harmonaize::shim::DlopenFunction
harmonaize_choose_dlopen(const char* file, int /*mode*/) noexcept {
  using namespace harmonaize::shim;
  if (file != nullptr && NamesNccl(file) && !SwitchedOff()) return &OpenOurselves;
  return LoadersDlopen();
}

// Assembly, because a compiler promises a jump only when it optimizes.
#if defined(__x86_64__)
asm(R"(
    .text
    .globl dlopen
    .type dlopen, @function
dlopen:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call harmonaize_choose_dlopen
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size dlopen, .-dlopen
)");
#elif defined(__aarch64__)
// "hint #34" is "bti c", for assemblers that do not know it. A branch by x16 may land on one.
asm(R"(
    .text
    .globl dlopen
    .type dlopen, %function
    .p2align 2
dlopen:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-32]!
    .cfi_adjust_cfa_offset 32
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    mov x29, sp
    stp x0, x1, [sp, #16]
    bl harmonaize_choose_dlopen
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_adjust_cfa_offset -32
    .cfi_restore x29
    .cfi_restore x30
    br x16
    .cfi_endproc
    .size dlopen, .-dlopen
)");
#else
#error "dlopen has to be passed on by a jump: write one for this processor"
#endif
