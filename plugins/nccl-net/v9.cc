#include "plugins/nccl-net/net_plugin.h"

// NCCL 2.24 and 2.25: sizes of 64 bits, virtual devices.

namespace harmonaize::nccl_net {
namespace {

using nccl_abi::NetDeviceHandle;

ncclResult_t InitV9(nccl_abi::Logger logger) {
  return Init(nullptr, logger);
}

ncclResult_t GetPropertiesV9(int device, nccl_abi::NetPropertiesV9* properties) {
  const ncclResult_t filled = FillCommon(device, properties);
  if (filled == ncclSuccess) FillSince9(properties);
  return filled;
}

ncclResult_t ConnectV9(int device, void* handle, void** send_comm, NetDeviceHandle**) {
  return Connect(device, handle, send_comm);
}

ncclResult_t AcceptV9(void* listen_comm, void** recv_comm, NetDeviceHandle**) {
  return Accept(listen_comm, recv_comm);
}

ncclResult_t IrecvV9(void* recv_comm, int count, void** data, size_t* bytes, int* tags,
                     void** registrations, void** request) {
  return Irecv(recv_comm, count, data, bytes, tags, registrations, request);
}

ncclResult_t MakeVirtualDeviceV9(int*, nccl_abi::NetVirtualDeviceV9*) {
  return RefuseVirtualDevice();
}

}  // namespace
}  // namespace harmonaize::nccl_net

using namespace harmonaize::nccl_net;  // NOLINT(google-build-using-namespace)

extern "C" __attribute__((visibility("default")))
const harmonaize::nccl_abi::NetV9 ncclNetPlugin_v9;
extern "C" const harmonaize::nccl_abi::NetV9 ncclNetPlugin_v9 = {
    .name = kName,
    .init = InitV9,
    .devices = Devices,
    .get_properties = GetPropertiesV9,
    .listen = Listen,
    .connect = ConnectV9,
    .accept = AcceptV9,
    .reg_mr = RegMr,
    .reg_mr_dma_buf = RegMrDmaBuf,
    .dereg_mr = DeregMr,
    .isend = Isend,
    .irecv = IrecvV9,
    .iflush = Iflush,
    .test = Test,
    .close_send = CloseSend,
    .close_recv = CloseRecv,
    .close_listen = CloseListen,
    .get_device_mr = GetDeviceMr,
    .irecv_consumed = IrecvConsumed,
    .make_virtual_device = MakeVirtualDeviceV9,
};
