#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nccl.h"
#include "plugins/nccl-net/net_abi.h"

namespace harmonaize::testing {

/// A handle, as NCCL brings it from the process that listens to the one that connects.
struct NetHandle {
  char bytes[128] = {};
};

/// Properties that all versions have, and those that some have.
struct NetProperties {
  std::string name;
  int ptr_support = 0;
  int reg_is_global = 0;
  int speed = 0;
  int max_comms = 0;
  int max_recvs = 0;
  int device_type = -1;
  size_t max_p2p_bytes = 0;  ///< Since v9.
  int virtual_devices = 0;   ///< Since v9.
  int rail = 0;              ///< Since v12.
};

/// The net plugin by one version of its interface, loaded as NCCL loads it: by the name
/// libnccl-net-harmonaize.so, and by the symbol of the version. The calls are in the form of the
/// latest version.
class NetPlugin {
 public:
  /// Returns the plugin; a failure of gtest, and an object without calls, where it cannot be
  /// loaded.
  static NetPlugin Load(int version);
  /// Returns the plugin that is linked into this program.
  static NetPlugin Of(const nccl_abi::NetV12* table);
  /// Versions that the plugin has.
  static const std::vector<int>& Versions();
  /// Unloads the library as NCCL does.
  void Unload();

  std::string name;
  void* context = nullptr;  ///< Since v11: that of init.

  std::function<ncclResult_t()> init;
  std::function<ncclResult_t()> finalize;  ///< Empty before v11.
  std::function<ncclResult_t(int*)> devices;
  std::function<ncclResult_t(int, NetProperties*)> properties;
  std::function<ncclResult_t(int, void*, void**)> listen;
  std::function<ncclResult_t(int, void*, void**)> connect;
  std::function<ncclResult_t(void*, void**)> accept;
  std::function<ncclResult_t(void*, void*, size_t, int, void**)> reg_mr;
  std::function<ncclResult_t(void*, void*, size_t, int, uint64_t, int, void**)> reg_mr_dma_buf;
  std::function<ncclResult_t(void*, void*)> dereg_mr;
  std::function<ncclResult_t(void*, void*, size_t, int, void*, void**)> isend;
  std::function<ncclResult_t(void*, int, void**, size_t*, int*, void**, void**)> irecv;
  std::function<ncclResult_t(void*, int, void**, int*, void**, void**)> iflush;
  std::function<ncclResult_t(void*, int*, int*)> test;
  std::function<ncclResult_t(void*)> close_send;
  std::function<ncclResult_t(void*)> close_recv;
  std::function<ncclResult_t(void*)> close_listen;
  std::function<ncclResult_t(void*, void*, void**)> get_device_mr;
  std::function<ncclResult_t(void*, int, void*)> irecv_consumed;
  std::function<ncclResult_t()> make_virtual_device;  ///< Empty before v9.
  std::function<ncclResult_t()> set_attributes;       ///< Empty before v11.

 private:
  void* library_ = nullptr;
};

/// Lines that the plugin has written into the log that init was given.
std::string NetLog();
void ClearNetLog();

}  // namespace harmonaize::testing
