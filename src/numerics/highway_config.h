#pragma once

// How Highway is used here; every file that includes it must include this one first, so that all
// agree on the list of targets.

// Its assertions call into libhwy, which nothing here may link: the code is loaded into foreign
// processes.
#define HWY_IS_DEBUG_BUILD 0
// Not used, and so not demanded of the processor.
#define HWY_DISABLE_PCLMUL_AES 1
// SSSE3 without SSE4 is rarer than the time it takes to compile; vectors whose length is unknown to
// the compiler (SVE, RVV) cannot be kept in arrays, as the kernel does. Sanitizers multiply the
// time by ten: they get the baseline and one vector target, AVX2, whose accesses they can see into.
#define HARMONAIZE_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (HARMONAIZE_DISABLED_TARGETS | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS HARMONAIZE_DISABLED_TARGETS
#endif
// Only x86 is dispatched at run time.
#if !defined(__x86_64__) && !defined(__i386__)
#define HWY_COMPILE_ONLY_STATIC 1
#endif
