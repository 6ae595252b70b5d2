#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"
#include "plugins/nccl-profiler/v1.h"
#include "plugins/nccl-profiler/v3.h"

namespace harmonaize::nccl_abi {

/// An event of version 4 (NCCL 2.27). The communicator is told once, to init, and kernels come with
/// the GPU's clock.
struct ProfilerEventV4 {
  struct Collective {
    uint64_t sequence;
    const char* function;
    const void* send;
    void* receive;
    size_t count;
    int root;
    const char* type;
    uint8_t channels;
    uint8_t warps;
    const char* algorithm;
    const char* protocol;
  };
  struct PointToPoint {
    const char* function;
    void* buffer;
    const char* type;
    size_t count;
    int peer;
    uint8_t channels;
  };
  using Proxy = ProfilerEventV1::Proxy;
  using ProxyStep = ProfilerEventV1::ProxyStep;
  struct Kernel {
    uint8_t channel;
    uint64_t timer;  ///< Nanoseconds by the GPU's clock.
  };
  using Network = ProfilerEventV3::Network;

  uint8_t type;  ///< One bit of ProfileEvents.
  void* parent;  ///< The handle of an event, or NULL.
  int rank;
  union {
    Collective collective;
    PointToPoint p2p;
    Proxy proxy;
    ProxyStep proxy_step;
    Kernel kernel;
    Network network;
  };
};

/// What a change of state says beside the state, from version 4 on.
union ProfilerStateV4 {
  struct {
    size_t transferred;  ///< Bytes of the step.
  } proxy_step;
  struct {
    int appended;
  } proxy_control;
  struct {
    void* data;
  } network;
  struct {
    uint64_t timer;  ///< Nanoseconds by the GPU's clock.
  } kernel;
};

struct ProfilerV4 {
  const char* name;
  ncclResult_t (*init)(void** context, int* mask, const char* communicator_name,
                       uint64_t communicator, int hosts, int ranks, int rank, Logger logger);
  ncclResult_t (*start_event)(void* context, void** handle, ProfilerEventV4* event);
  ncclResult_t (*stop_event)(void* handle);
  ncclResult_t (*record_event_state)(void* handle, int state, ProfilerStateV4* arguments);
  ncclResult_t (*finalize)(void* context);
};

}  // namespace harmonaize::nccl_abi
