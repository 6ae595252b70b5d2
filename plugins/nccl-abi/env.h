#pragma once

#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"

namespace harmonaize::nccl_abi {

// NCCL's interface to env plugins, as NCCL 2.28.7 and later load it: a struct by the name of
// ncclEnvPlugin_vN. NCCL calls init once, before it reads its first setting; an error of init is
// one of the program's first call of NCCL. It then asks getEnv, on any thread, instead of getenv.
// It calls finalize when the program exits, while other threads may still be in getEnv.

/// From NCCL 2.28.7 on.
struct EnvV1 {
  const char* name;
  /// `suffix`: what NCCL's version has after its numbers, such as "+cuda13.0".
  ncclResult_t (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char* suffix);
  ncclResult_t (*finalize)();
  /// Returns the value, or nullptr where there is none. The text stays as it is until finalize, or
  /// until the next call with the same name.
  const char* (*get_env)(const char* name);
};

/// From NCCL 2.30 on: init gets the function by which to log.
struct EnvV2 {
  const char* name;
  ncclResult_t (*init)(uint8_t major, uint8_t minor, uint8_t patch, const char* suffix,
                       Logger logger);
  ncclResult_t (*finalize)();
  const char* (*get_env)(const char* name);
};

}  // namespace harmonaize::nccl_abi
