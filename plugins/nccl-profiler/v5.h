#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"
#include "plugins/nccl-profiler/v1.h"
#include "plugins/nccl-profiler/v3.h"
#include "plugins/nccl-profiler/v4.h"

namespace harmonaize::nccl_abi {

/// An event of version 5 (NCCL 2.28), which has calls of NCCL's API, too. They are parents of the
/// operations that come of them.
struct ProfilerEventV5 {
  struct GroupCall {
    bool graph_captured;
    int depth;
  };
  struct CollectiveCall {
    const char* function;
    size_t count;
    const char* type;
    int root;
    void* stream;
    bool graph_captured;
  };
  struct PointToPointCall {
    const char* function;
    size_t count;
    const char* type;
    void* stream;
    bool graph_captured;
  };
  struct KernelLaunch {
    void* stream;
  };
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
    void* group;  ///< The group's handle.
  };
  struct PointToPoint {
    const char* function;
    void* buffer;
    const char* type;
    size_t count;
    int peer;
    uint8_t channels;
    void* group;
  };
  using Proxy = ProfilerEventV1::Proxy;
  using ProxyStep = ProfilerEventV1::ProxyStep;
  using Kernel = ProfilerEventV4::Kernel;
  using Network = ProfilerEventV3::Network;

  uint64_t type;  ///< One bit of ProfileEvents.
  void* parent;   ///< The handle of an event, or NULL.
  int rank;
  union {
    GroupCall group_call;
    CollectiveCall collective_call;
    PointToPointCall p2p_call;
    KernelLaunch kernel_launch;
    Collective collective;
    PointToPoint p2p;
    Proxy proxy;
    ProxyStep proxy_step;
    Kernel kernel;
    Network network;
  };
};

struct ProfilerV5 {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t communicator, int* mask,
                       const char* communicator_name, int hosts, int ranks, int rank,
                       Logger logger);
  ncclResult_t (*start_event)(void* context, void** handle, ProfilerEventV5* event);
  ncclResult_t (*stop_event)(void* handle);
  ncclResult_t (*record_event_state)(void* handle, int state, ProfilerStateV4* arguments);
  ncclResult_t (*finalize)(void* context);
};

}  // namespace harmonaize::nccl_abi
