#pragma once

#include <string>
#include <vector>

namespace harmonaize::transport {

/// One port of an RDMA device, as the kernel describes it.
struct RdmaPort {
  std::string device;  ///< "mlx5_0"
  int port = 1;
  bool active = false;
  double gigabits_per_second = 0;  ///< Rate; 0 where the kernel does not say.
  std::string link_layer;          ///< "InfiniBand", "Ethernet"

  /// Returns UCX's name of the port, such as "mlx5_0:1".
  std::string UcxName() const;
};

/// Returns the ports of all RDMA devices, sorted by name; none if there are no devices. Reads what
/// libibverbs would read (/sys/class/infiniband), so a host without such devices needs no library
/// for it. `folder` is another place for tests.
std::vector<RdmaPort> ListRdmaPorts(const std::string& folder = "/sys/class/infiniband");

}  // namespace harmonaize::transport
