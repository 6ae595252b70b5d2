#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"

namespace harmonaize::nccl_abi {

/// An event of version 1 (NCCL 2.23), which numbers functions, types and algorithms.
struct ProfilerEventV1 {
  struct Collective {
    const char* name;  ///< Of the communicator; may be NULL.
    uint64_t communicator;
    uint64_t sequence;
    uint8_t function;
    const void* send;
    void* receive;
    size_t count;
    int root;
    uint8_t type;
    uint32_t op;
    size_t traffic_bytes;
    uint8_t most_channels;
    uint8_t warps;
    uint8_t algorithm;
    uint8_t protocol;
    int is_collnet;
    int is_nvls;
  };
  struct PointToPoint {
    const char* name;
    uint64_t communicator;
    uint8_t function;
    void* buffer;
    uint8_t type;
    size_t count;
    int peer;
  };
  struct Proxy {
    pid_t process;  ///< The one in which the parent is.
    uint8_t channel;
    int peer;
    int steps;
    int chunk_bytes;
    int is_send;
  };
  struct ProxyStep {
    int step;
  };

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

/// What a change of state says beside the state, in versions 1 to 3.
union ProfilerStateV1 {
  struct {
    size_t transferred;  ///< Bytes so far.
    int steps;
  } proxy;
  struct {
    int appended;
  } proxy_control;
};

struct ProfilerV1 {
  const char* name;
  ncclResult_t (*init)(void** context, int* mask);
  ncclResult_t (*start_event)(void* context, void** handle, ProfilerEventV1* event);
  ncclResult_t (*stop_event)(void* handle);
  ncclResult_t (*record_event_state)(void* handle, int state, ProfilerStateV1* arguments);
  ncclResult_t (*finalize)(void* context);
};

}  // namespace harmonaize::nccl_abi
