#pragma once

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"

namespace harmonaize::nccl_abi {

// NCCL's interface to tuner plugins, as NCCL 2.21 and later load it: a struct by the name of
// ncclTunerPlugin_vN. Each communicator has a context, which init makes. NCCL asks getCollInfo on
// the thread that launches collectives, for each kind of collective of a group, at all ranks in the
// same order. All ranks have to choose alike. An error of getCollInfo fails the collective from
// NCCL 2.30 on.
//
// Functions are numbered as in TuningTable, and so are algorithms and protocols. A cost table has a
// predicted time for each algorithm and protocol, `algorithms` rows of `protocols`; NCCL takes the
// least that is not negative.

using TunerCosts = float**;

/// NCCL 2.21: the plugin names what is to be used.
struct TunerV2 {
  const char* name;
  ncclResult_t (*init)(size_t ranks, size_t hosts, Logger logger, void** context);
  ncclResult_t (*get_choice)(void* context, int function, size_t bytes, int has_collnet,
                             int has_nvls, int pipelined, int* algorithm, int* protocol,
                             int* channels);
  ncclResult_t (*destroy)(void* context);
};

/// NCCL 2.22 and 2.23: the plugin changes costs.
struct TunerV3 {
  const char* name;
  ncclResult_t (*init)(size_t ranks, size_t hosts, Logger logger, void** context);
  ncclResult_t (*get_costs)(void* context, int function, size_t bytes, int pipelined,
                            TunerCosts costs, int algorithms, int protocols, int* channels);
  ncclResult_t (*destroy)(void* context);
};

/// NCCL 2.24 to 2.27: NCCL tells whether the buffers are registered.
struct TunerV4 {
  const char* name;
  ncclResult_t (*init)(size_t ranks, size_t hosts, Logger logger, void** context);
  ncclResult_t (*get_costs)(void* context, int function, size_t bytes, int pipelined,
                            TunerCosts costs, int algorithms, int protocols, int registered,
                            int* channels);
  ncclResult_t (*destroy)(void* context);
};

/// NCCL 2.28 and 2.29: init tells which communicator it is. The two last arguments are of structs
/// that this plugin leaves as they are.
struct TunerV5 {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t communicator, size_t ranks, size_t hosts,
                       Logger logger, void* domains, void* constants);
  ncclResult_t (*get_costs)(void* context, int function, size_t bytes, int pipelined,
                            TunerCosts costs, int algorithms, int protocols, int registered,
                            int* channels);
  ncclResult_t (*finalize)(void* context);
};

/// NCCL 2.30: the plugin may change the size of chunks.
struct TunerV6 {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t communicator, size_t ranks, size_t hosts,
                       Logger logger, void* domains, void* constants);
  ncclResult_t (*get_costs)(void* context, int function, size_t bytes, int pipelined,
                            TunerCosts costs, int algorithms, int protocols, int registered,
                            int* channels);
  ncclResult_t (*finalize)(void* context);
  /// May be NULL: NCCL's own size is used then.
  ncclResult_t (*get_chunk_size)(void* context, int function, size_t bytes, int algorithm,
                                 int protocol, int channels, size_t* chunk_bytes);
};

}  // namespace harmonaize::nccl_abi
