#include "plugins/nccl-net/net_plugin.h"

// NCCL 2.30: rails and planes of devices, virtual devices of more members.

namespace harmonaize::nccl_net {
namespace {

using nccl_abi::NetDeviceHandle;

ncclResult_t InitV12(void** context, uint64_t, nccl_abi::NetCommConfig*, nccl_abi::Logger logger,
                     nccl_abi::ProfilerCallback) {
  return context == nullptr ? ncclInvalidArgument : Init(context, logger);
}

ncclResult_t GetPropertiesV12(int device, nccl_abi::NetPropertiesV12* properties) {
  const ncclResult_t filled = FillCommon(device, properties);
  if (filled != ncclSuccess) return filled;
  FillSince9(properties);
  properties->max_multi_request_size = 1;
  properties->rail_id = nccl_abi::kNoNetId;
  properties->plane_id = nccl_abi::kNoNetId;
  return ncclSuccess;
}

ncclResult_t ListenV12(void*, int device, void* handle, void** listen_comm) {
  return Listen(device, handle, listen_comm);
}

ncclResult_t ConnectV12(void*, int device, void* handle, void** send_comm, NetDeviceHandle**) {
  return Connect(device, handle, send_comm);
}

ncclResult_t AcceptV12(void* listen_comm, void** recv_comm, NetDeviceHandle**) {
  return Accept(listen_comm, recv_comm);
}

ncclResult_t IsendV12(void* send_comm, void* data, size_t bytes, int tag, void* registration, void*,
                      void** request) {
  return Isend(send_comm, data, bytes, tag, registration, request);
}

ncclResult_t IrecvV12(void* recv_comm, int count, void** data, size_t* bytes, int* tags,
                      void** registrations, void**, void** request) {
  return Irecv(recv_comm, count, data, bytes, tags, registrations, request);
}

ncclResult_t MakeVirtualDeviceV12(int*, nccl_abi::NetVirtualDeviceV12*) {
  return RefuseVirtualDevice();
}

// What NCCL tells of its use of connections is nothing that the daemon does not see.
ncclResult_t SetNetAttributesV12(void*, nccl_abi::NetAttributes*) {
  return ncclSuccess;
}

}  // namespace
}  // namespace harmonaize::nccl_net

using namespace harmonaize::nccl_net;  // NOLINT(google-build-using-namespace)

extern "C" __attribute__((visibility("default")))
const harmonaize::nccl_abi::NetV12 ncclNetPlugin_v12;
extern "C" const harmonaize::nccl_abi::NetV12 ncclNetPlugin_v12 = {
    .name = kName,
    .init = InitV12,
    .devices = Devices,
    .get_properties = GetPropertiesV12,
    .listen = ListenV12,
    .connect = ConnectV12,
    .accept = AcceptV12,
    .reg_mr = RegMr,
    .reg_mr_dma_buf = RegMrDmaBuf,
    .dereg_mr = DeregMr,
    .isend = IsendV12,
    .irecv = IrecvV12,
    .iflush = Iflush,
    .test = Test,
    .close_send = CloseSend,
    .close_recv = CloseRecv,
    .close_listen = CloseListen,
    .get_device_mr = GetDeviceMr,
    .irecv_consumed = IrecvConsumed,
    .make_virtual_device = MakeVirtualDeviceV12,
    .finalize = Finalize,
    .set_net_attributes = SetNetAttributesV12,
};
