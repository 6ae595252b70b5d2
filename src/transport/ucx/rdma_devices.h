#pragma once

#include <string>
#include <vector>

namespace harmonaize::transport {

/// One port of an RDMA device, as the kernel tells it.
struct RdmaPort {
  std::string device;  ///< "mlx5_0"
  int port = 1;
  bool active = false;
  double gigabits_per_second = 0;  ///< 0 where the kernel does not say.
  std::string link_layer;          ///< "InfiniBand", "Ethernet"

  /// As UCX calls it: "mlx5_0:1".
  std::string UcxName() const;
};

/// The ports of all RDMA devices, by name; empty where there is none. Reads what libibverbs would
/// (/sys/class/infiniband), so that a host without such devices needs no library for it.
/// `folder` is another place for tests.
std::vector<RdmaPort> ListRdmaPorts(const std::string& folder = "/sys/class/infiniband");

}  // namespace harmonaize::transport
