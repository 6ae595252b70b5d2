#include "plugins/nccl-net/net_plugin.h"

// NCCL 2.26 and 2.27: events for a profiler, which are not told; a configuration at connect.

namespace harmonaize::nccl_net {
namespace {

using nccl_abi::NetDeviceHandle;

ncclResult_t InitV10(nccl_abi::Logger logger, nccl_abi::ProfilerCallback) {
  return Init(nullptr, logger);
}

ncclResult_t GetPropertiesV10(int device, nccl_abi::NetPropertiesV9* properties) {
  const ncclResult_t filled = FillCommon(device, properties);
  if (filled == ncclSuccess) FillSince9(properties);
  return filled;
}

ncclResult_t ConnectV10(int device, nccl_abi::NetCommConfig*, void* handle, void** send_comm,
                        NetDeviceHandle**) {
  return Connect(device, handle, send_comm);
}

ncclResult_t AcceptV10(void* listen_comm, void** recv_comm, NetDeviceHandle**) {
  return Accept(listen_comm, recv_comm);
}

ncclResult_t IsendV10(void* send_comm, void* data, size_t bytes, int tag, void* registration, void*,
                      void** request) {
  return Isend(send_comm, data, bytes, tag, registration, request);
}

ncclResult_t IrecvV10(void* recv_comm, int count, void** data, size_t* bytes, int* tags,
                      void** registrations, void**, void** request) {
  return Irecv(recv_comm, count, data, bytes, tags, registrations, request);
}

ncclResult_t MakeVirtualDeviceV10(int*, nccl_abi::NetVirtualDeviceV9*) {
  return RefuseVirtualDevice();
}

}  // namespace
}  // namespace harmonaize::nccl_net

using namespace harmonaize::nccl_net;  // NOLINT(google-build-using-namespace)

extern "C" __attribute__((visibility("default")))
const harmonaize::nccl_abi::NetV10 ncclNetPlugin_v10;
extern "C" const harmonaize::nccl_abi::NetV10 ncclNetPlugin_v10 = {
    .name = kName,
    .init = InitV10,
    .devices = Devices,
    .get_properties = GetPropertiesV10,
    .listen = Listen,
    .connect = ConnectV10,
    .accept = AcceptV10,
    .reg_mr = RegMr,
    .reg_mr_dma_buf = RegMrDmaBuf,
    .dereg_mr = DeregMr,
    .isend = IsendV10,
    .irecv = IrecvV10,
    .iflush = Iflush,
    .test = Test,
    .close_send = CloseSend,
    .close_recv = CloseRecv,
    .close_listen = CloseListen,
    .get_device_mr = GetDeviceMr,
    .irecv_consumed = IrecvConsumed,
    .make_virtual_device = MakeVirtualDeviceV10,
};
