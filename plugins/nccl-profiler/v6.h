#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"
#include "plugins/nccl-profiler/v1.h"
#include "plugins/nccl-profiler/v3.h"
#include "plugins/nccl-profiler/v4.h"
#include "plugins/nccl-profiler/v5.h"

namespace harmonaize::nccl_abi {

/// An event of version 6 (NCCL 2.29 and later): as in version 5, with collectives of the copy
/// engines.
struct ProfilerEventV6 {
  using GroupCall = ProfilerEventV5::GroupCall;
  using CollectiveCall = ProfilerEventV5::CollectiveCall;
  using PointToPointCall = ProfilerEventV5::PointToPointCall;
  using KernelLaunch = ProfilerEventV5::KernelLaunch;
  using Collective = ProfilerEventV5::Collective;
  using PointToPoint = ProfilerEventV5::PointToPoint;
  using Proxy = ProfilerEventV1::Proxy;
  using ProxyStep = ProfilerEventV1::ProxyStep;
  using Kernel = ProfilerEventV4::Kernel;
  using Network = ProfilerEventV3::Network;
  struct CopyCollective {
    uint64_t sequence;
    const char* function;
    const void* send;
    void* receive;
    size_t count;
    int root;
    const char* type;
    const char* sync_strategy;
    bool syncs_within_batch;
    uint32_t batch_size;
    uint32_t batches;
    uint32_t copy_sequence;
    void* stream;
  };
  struct CopySync {
    bool is_complete;
    int ranks;
  };
  struct CopyBatch {
    int operations;
    size_t total_bytes;
    bool syncs_within;
  };

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
    CopyCollective copy_collective;
    CopySync copy_sync;
    CopyBatch copy_batch;
  };
};

struct ProfilerV6 {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t communicator, int* mask,
                       const char* communicator_name, int hosts, int ranks, int rank,
                       Logger logger);
  ncclResult_t (*start_event)(void* context, void** handle, ProfilerEventV6* event);
  ncclResult_t (*stop_event)(void* handle);
  ncclResult_t (*record_event_state)(void* handle, int state, ProfilerStateV4* arguments);
  ncclResult_t (*finalize)(void* context);
};

}  // namespace harmonaize::nccl_abi
