#pragma once

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "plugins/nccl-net/net_abi.h"

// These are the calls that NCCL makes, in the form of the latest version. The file of each version
// gives them the form of that version. None of them throws. Isend, Irecv, Test and the calls that
// close are made by one thread at a time for a connection; the others by any thread. Errors are
// NCCL's codes; their text is in NCCL's log (NCCL_DEBUG=WARN).

namespace harmonaize::nccl_net {

/// Name by which NCCL_NET=... chooses the plugin.
inline constexpr const char* kName = "Harmonaize";

/// What getProperties tells of the one device.
struct Properties {
  int speed_mbps = 0;  ///< Of all rails together.
};

/// Begins to serve a communicator of NCCL's. Returns ncclSystemError where no daemon that is
/// trusted listens: NCCL then takes its own transports.
ncclResult_t Init(void** context, nccl_abi::Logger logger);
ncclResult_t Finalize(void* context);
ncclResult_t Devices(int* count);
ncclResult_t CheckDevice(int device);

ncclResult_t Listen(int device, void* handle, void** listen_comm);
ncclResult_t Connect(int device, void* handle, void** send_comm);
ncclResult_t Accept(void* listen_comm, void** recv_comm);
ncclResult_t RegMr(void* comm, void* data, size_t bytes, int kind, void** registration);
ncclResult_t RegMrDmaBuf(void* comm, void* data, size_t bytes, int kind, uint64_t offset,
                         int descriptor, void** registration);
ncclResult_t DeregMr(void* comm, void* registration);
ncclResult_t Isend(void* send_comm, void* data, size_t bytes, int tag, void* registration,
                   void** request);
ncclResult_t Irecv(void* recv_comm, int count, void** data, const size_t* bytes, const int* tags,
                   void** registrations, void** request);
ncclResult_t Iflush(void* recv_comm, int count, void** data, int* bytes, void** registrations,
                    void** request);
ncclResult_t Test(void* request, int* done, int* bytes);
ncclResult_t CloseSend(void* send_comm);
ncclResult_t CloseRecv(void* recv_comm);
ncclResult_t CloseListen(void* listen_comm);
ncclResult_t GetDeviceMr(void* comm, void* registration, void** on_device);
ncclResult_t IrecvConsumed(void* recv_comm, int count, void* request);
ncclResult_t RefuseVirtualDevice();

/// Fills in the properties that all versions have.
template <typename AnyProperties>
ncclResult_t FillCommon(int device, AnyProperties* properties);
/// Fills in those of v9 and later.
template <typename AnyProperties>
void FillSince9(AnyProperties* properties);

// ---------------------------------------------------------------------------------------------

/// Returns the text of the device's name, which NCCL keeps a pointer to.
char* DeviceName();
Properties DeviceProperties();
/// Most messages in one irecv.
int MostGroupedReceives();
/// Largest message.
size_t MostBytes();

template <typename AnyProperties>
ncclResult_t FillCommon(int device, AnyProperties* properties) {
  const ncclResult_t known = properties == nullptr ? ncclInvalidArgument : CheckDevice(device);
  if (known != ncclSuccess) return known;
  *properties = AnyProperties{};
  properties->name = DeviceName();
  properties->pci_path = nullptr;
  properties->guid = 1;
  properties->ptr_support = nccl_abi::kPointerToHost;
  properties->reg_is_global = 1;
  properties->speed = DeviceProperties().speed_mbps;
  properties->port = 0;
  properties->latency = 0;
  properties->max_comms = 64 * 1024;
  properties->max_recvs = MostGroupedReceives();
  properties->net_device_type = nccl_abi::kNetDeviceHost;
  properties->net_device_version = 0;
  return ncclSuccess;
}

template <typename AnyProperties>
void FillSince9(AnyProperties* properties) {
  properties->force_flush = 0;
  properties->virtual_device.device_count = 1;
  properties->virtual_device.devices[0] = 0;
  properties->max_p2p_bytes = MostBytes();
  properties->max_coll_bytes = MostBytes();
}

}  // namespace harmonaize::nccl_net
