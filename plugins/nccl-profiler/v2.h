#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-profiler/v1.h"

namespace harmonaize::nccl_abi {

/// An event of version 2 (NCCL 2.24 and 2.25), which names functions, types and algorithms.
struct ProfilerEventV2 {
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
    size_t traffic_bytes;
    uint8_t most_channels;
    uint8_t warps;
    const char* algorithm;
    const char* protocol;
  };
  struct PointToPoint {
    const char* name;
    uint64_t communicator;
    const char* function;
    void* buffer;
    const char* type;
    size_t count;
    int peer;
  };
  using Proxy = ProfilerEventV1::Proxy;
  using ProxyStep = ProfilerEventV1::ProxyStep;

  uint8_t type;  ///< One bit of ProfileEvents.
  void* parent;  ///< The handle of an event, or NULL.
  int rank;
  union {
    Collective collective;
    PointToPoint p2p;
    Proxy proxy;
    ProxyStep proxy_step;
  };
};

struct ProfilerV2 {
  const char* name;
  ncclResult_t (*init)(void** context, int* mask);
  ncclResult_t (*start_event)(void* context, void** handle, ProfilerEventV2* event);
  ncclResult_t (*stop_event)(void* handle);
  ncclResult_t (*record_event_state)(void* handle, int state, ProfilerStateV1* arguments);
  ncclResult_t (*finalize)(void* context);
};

}  // namespace harmonaize::nccl_abi
