#include <array>

#include "plugins/nccl-net/net_plugin.h"

// NCCL 2.19 to 2.23.

namespace harmonaize::nccl_net {
namespace {

using nccl_abi::NetDeviceHandle;

ncclResult_t InitV8(nccl_abi::Logger logger) {
  return Init(nullptr, logger);
}

ncclResult_t GetPropertiesV8(int device, nccl_abi::NetPropertiesV8* properties) {
  return FillCommon(device, properties);
}

ncclResult_t ConnectV8(int device, void* handle, void** send_comm, NetDeviceHandle**) {
  return Connect(device, handle, send_comm);
}

ncclResult_t AcceptV8(void* listen_comm, void** recv_comm, NetDeviceHandle**) {
  return Accept(listen_comm, recv_comm);
}

ncclResult_t IsendV8(void* send_comm, void* data, int bytes, int tag, void* registration,
                     void** request) {
  if (bytes < 0) return ncclInvalidArgument;
  return Isend(send_comm, data, static_cast<size_t>(bytes), tag, registration, request);
}

ncclResult_t IrecvV8(void* recv_comm, int count, void** data, int* bytes, int* tags,
                     void** registrations, void** request) {
  if (bytes == nullptr || count < 1 || count > MostGroupedReceives()) return ncclInvalidArgument;
  std::array<size_t, 64> sizes{};
  for (int i = 0; i < count; ++i) {
    if (bytes[i] < 0) return ncclInvalidArgument;
    sizes[static_cast<size_t>(i)] = static_cast<size_t>(bytes[i]);
  }
  return Irecv(recv_comm, count, data, sizes.data(), tags, registrations, request);
}

}  // namespace
}  // namespace harmonaize::nccl_net

using namespace harmonaize::nccl_net;  // NOLINT(google-build-using-namespace)

extern "C" __attribute__((visibility("default")))
const harmonaize::nccl_abi::NetV8 ncclNetPlugin_v8;
extern "C" const harmonaize::nccl_abi::NetV8 ncclNetPlugin_v8 = {
    .name = kName,
    .init = InitV8,
    .devices = Devices,
    .get_properties = GetPropertiesV8,
    .listen = Listen,
    .connect = ConnectV8,
    .accept = AcceptV8,
    .reg_mr = RegMr,
    .reg_mr_dma_buf = RegMrDmaBuf,
    .dereg_mr = DeregMr,
    .isend = IsendV8,
    .irecv = IrecvV8,
    .iflush = Iflush,
    .test = Test,
    .close_send = CloseSend,
    .close_recv = CloseRecv,
    .close_listen = CloseListen,
    .get_device_mr = GetDeviceMr,
    .irecv_consumed = IrecvConsumed,
};
