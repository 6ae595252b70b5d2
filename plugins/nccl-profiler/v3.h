#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-profiler/v1.h"
#include "plugins/nccl-profiler/v2.h"

namespace harmonaize::nccl_abi {

/// An event of version 3 (NCCL 2.26): as in version 2, without the bytes of the traffic and with
/// events of kernels and of network plugins.
struct ProfilerEventV3 {
  struct Collective {
    const char* name;  ///< Of the communicator; may be NULL.
    uint64_t communicator;
    uint64_t sequence;
    const char* function;
    const void* send;
    void* receive;
    size_t count;
    int root;
    const char* type;
    uint8_t most_channels;
    uint8_t warps;
    const char* algorithm;
    const char* protocol;
  };
  using PointToPoint = ProfilerEventV2::PointToPoint;
  using Proxy = ProfilerEventV1::Proxy;
  using ProxyStep = ProfilerEventV1::ProxyStep;
  struct Kernel {
    uint8_t channel;
  };
  struct Network {
    int64_t id;
    void* data;
  };

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

struct ProfilerV3 {
  const char* name;
  ncclResult_t (*init)(void** context, int* mask);
  ncclResult_t (*start_event)(void* context, void** handle, ProfilerEventV3* event);
  ncclResult_t (*stop_event)(void* handle);
  ncclResult_t (*record_event_state)(void* handle, int state, ProfilerStateV1* arguments);
  ncclResult_t (*finalize)(void* context);
};

}  // namespace harmonaize::nccl_abi
