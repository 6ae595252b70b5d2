#pragma once

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-abi/logger.h"

// The interface of NCCL's net plugins, by version, as NCCL lays it out. Versions differ in a few
// members, and in what init, listen, connect, isend and irecv are given.

namespace harmonaize::nccl_abi {

/// Bytes of the handle that listen fills in, and that NCCL brings to the process that connects.
inline constexpr size_t kNetHandleBytes = 128;
/// Requests that NCCL may have under way on one connection.
inline constexpr int kNetRequests = 32;

/// Kinds of memory that regMr is asked for, and that NetProperties::ptr_support lists.
enum PointerKind : int { kPointerToHost = 1, kPointerToCuda = 2, kPointerToDmaBuf = 4 };

/// Value of railId and planeId where there is none.
inline constexpr int16_t kNoNetId = -1;

/// Who moves the data of a connection: the host's processor, for all devices of this plugin.
inline constexpr int kNetDeviceHost = 0;

/// NCCL's call that takes a net plugin's own profiler events. This plugin has none.
using ProfilerCallback = ncclResult_t (*)(void** event, int type, void* parent, int64_t plugin,
                                          void* data);

template <int kMost>
struct NetVirtualDevice {
  int device_count;
  int devices[kMost];
};
using NetVirtualDeviceV9 = NetVirtualDevice<4>;
using NetVirtualDeviceV12 = NetVirtualDevice<8>;

struct NetCommConfig {
  int traffic_class;
};

struct NetPropertiesV8 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int ptr_support;
  int reg_is_global;
  int speed;  ///< In Mbit/s.
  int port;
  float latency;
  int max_comms;
  int max_recvs;
  int net_device_type;
  int net_device_version;
};

/// Of v9 and v10.
struct NetPropertiesV9 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int ptr_support;
  int reg_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_recvs;
  int net_device_type;
  int net_device_version;
  NetVirtualDeviceV9 virtual_device;
  size_t max_p2p_bytes;
  size_t max_coll_bytes;
};

struct NetPropertiesV11 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int ptr_support;
  int reg_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_recvs;
  int net_device_type;
  int net_device_version;
  NetVirtualDeviceV9 virtual_device;
  size_t max_p2p_bytes;
  size_t max_coll_bytes;
  int max_multi_request_size;
};

struct NetPropertiesV12 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int ptr_support;
  int reg_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_recvs;
  int net_device_type;
  int net_device_version;
  NetVirtualDeviceV12 virtual_device;
  size_t max_p2p_bytes;
  size_t max_coll_bytes;
  int max_multi_request_size;
  int16_t rail_id;
  int16_t plane_id;
};

/// A connection that a GPU drives itself, which this plugin has none of.
struct NetDeviceHandle;
/// What NCCL tells of its use of a connection (v11 and later).
struct NetAttributes;

struct NetV8 {
  const char* name;
  ncclResult_t (*init)(Logger logger);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV8* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int device, void* handle, void** send_comm, NetDeviceHandle** on_device);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** on_device);
  ncclResult_t (*reg_mr)(void* comm, void* data, size_t bytes, int kind, void** registration);
  ncclResult_t (*reg_mr_dma_buf)(void* comm, void* data, size_t bytes, int kind, uint64_t offset,
                                 int descriptor, void** registration);
  ncclResult_t (*dereg_mr)(void* comm, void* registration);
  ncclResult_t (*isend)(void* send_comm, void* data, int bytes, int tag, void* registration,
                        void** request);
  ncclResult_t (*irecv)(void* recv_comm, int count, void** data, int* bytes, int* tags,
                        void** registrations, void** request);
  ncclResult_t (*iflush)(void* recv_comm, int count, void** data, int* bytes, void** registrations,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* bytes);
  ncclResult_t (*close_send)(void* send_comm);
  ncclResult_t (*close_recv)(void* recv_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
  ncclResult_t (*get_device_mr)(void* comm, void* registration, void** on_device);
  ncclResult_t (*irecv_consumed)(void* recv_comm, int count, void* request);
};

struct NetV9 {
  const char* name;
  ncclResult_t (*init)(Logger logger);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV9* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int device, void* handle, void** send_comm, NetDeviceHandle** on_device);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** on_device);
  ncclResult_t (*reg_mr)(void* comm, void* data, size_t bytes, int kind, void** registration);
  ncclResult_t (*reg_mr_dma_buf)(void* comm, void* data, size_t bytes, int kind, uint64_t offset,
                                 int descriptor, void** registration);
  ncclResult_t (*dereg_mr)(void* comm, void* registration);
  ncclResult_t (*isend)(void* send_comm, void* data, size_t bytes, int tag, void* registration,
                        void** request);
  ncclResult_t (*irecv)(void* recv_comm, int count, void** data, size_t* bytes, int* tags,
                        void** registrations, void** request);
  ncclResult_t (*iflush)(void* recv_comm, int count, void** data, int* bytes, void** registrations,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* bytes);
  ncclResult_t (*close_send)(void* send_comm);
  ncclResult_t (*close_recv)(void* recv_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
  ncclResult_t (*get_device_mr)(void* comm, void* registration, void** on_device);
  ncclResult_t (*irecv_consumed)(void* recv_comm, int count, void* request);
  ncclResult_t (*make_virtual_device)(int* device, NetVirtualDeviceV9* members);
};

struct NetV10 {
  const char* name;
  ncclResult_t (*init)(Logger logger, ProfilerCallback profiler);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, NetPropertiesV9* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int device, NetCommConfig* config, void* handle, void** send_comm,
                          NetDeviceHandle** on_device);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** on_device);
  ncclResult_t (*reg_mr)(void* comm, void* data, size_t bytes, int kind, void** registration);
  ncclResult_t (*reg_mr_dma_buf)(void* comm, void* data, size_t bytes, int kind, uint64_t offset,
                                 int descriptor, void** registration);
  ncclResult_t (*dereg_mr)(void* comm, void* registration);
  ncclResult_t (*isend)(void* send_comm, void* data, size_t bytes, int tag, void* registration,
                        void* event, void** request);
  ncclResult_t (*irecv)(void* recv_comm, int count, void** data, size_t* bytes, int* tags,
                        void** registrations, void** events, void** request);
  ncclResult_t (*iflush)(void* recv_comm, int count, void** data, int* bytes, void** registrations,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* bytes);
  ncclResult_t (*close_send)(void* send_comm);
  ncclResult_t (*close_recv)(void* recv_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
  ncclResult_t (*get_device_mr)(void* comm, void* registration, void** on_device);
  ncclResult_t (*irecv_consumed)(void* recv_comm, int count, void* request);
  ncclResult_t (*make_virtual_device)(int* device, NetVirtualDeviceV9* members);
};

/// Of v11 and v12, which differ in properties and virtual devices.
template <typename Properties, typename Members>
struct NetWithContext {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t comm_id, NetCommConfig* config, Logger logger,
                       ProfilerCallback profiler);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, Properties* properties);
  ncclResult_t (*listen)(void* context, int device, void* handle, void** listen_comm);
  ncclResult_t (*connect)(void* context, int device, void* handle, void** send_comm,
                          NetDeviceHandle** on_device);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, NetDeviceHandle** on_device);
  ncclResult_t (*reg_mr)(void* comm, void* data, size_t bytes, int kind, void** registration);
  ncclResult_t (*reg_mr_dma_buf)(void* comm, void* data, size_t bytes, int kind, uint64_t offset,
                                 int descriptor, void** registration);
  ncclResult_t (*dereg_mr)(void* comm, void* registration);
  ncclResult_t (*isend)(void* send_comm, void* data, size_t bytes, int tag, void* registration,
                        void* event, void** request);
  ncclResult_t (*irecv)(void* recv_comm, int count, void** data, size_t* bytes, int* tags,
                        void** registrations, void** events, void** request);
  ncclResult_t (*iflush)(void* recv_comm, int count, void** data, int* bytes, void** registrations,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* bytes);
  ncclResult_t (*close_send)(void* send_comm);
  ncclResult_t (*close_recv)(void* recv_comm);
  ncclResult_t (*close_listen)(void* listen_comm);
  ncclResult_t (*get_device_mr)(void* comm, void* registration, void** on_device);
  ncclResult_t (*irecv_consumed)(void* recv_comm, int count, void* request);
  ncclResult_t (*make_virtual_device)(int* device, Members* members);
  ncclResult_t (*finalize)(void* context);
  ncclResult_t (*set_net_attributes)(void* context, NetAttributes* attributes);
};
using NetV11 = NetWithContext<NetPropertiesV11, NetVirtualDeviceV9>;
using NetV12 = NetWithContext<NetPropertiesV12, NetVirtualDeviceV12>;

}  // namespace harmonaize::nccl_abi
