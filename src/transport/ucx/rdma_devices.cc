#include "src/transport/ucx/rdma_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "src/base/kernel_files.h"

namespace harmonaize::transport {
namespace {

RdmaPort ReadPort(const std::string& device, const std::filesystem::path& folder) {
  RdmaPort port;
  port.device = device;
  port.port = std::atoi(folder.filename().c_str());
  // "4: ACTIVE"; "100 Gb/sec (4X EDR)"
  port.active = FirstLine(folder / "state").find("ACTIVE") != std::string::npos;
  port.gigabits_per_second = std::strtod(FirstLine(folder / "rate").c_str(), nullptr);
  port.link_layer = FirstLine(folder / "link_layer");
  return port;
}

}  // namespace

std::string RdmaPort::UcxName() const {
  return fmt::format("{}:{}", device, port);
}

std::vector<RdmaPort> ListRdmaPorts(const std::string& folder) {
  std::vector<RdmaPort> ports;
  for (const std::string& device : NamesIn(folder)) {
    const std::filesystem::path ports_folder = std::filesystem::path(folder) / device / "ports";
    for (const std::string& port : NamesIn(ports_folder)) {
      ports.push_back(ReadPort(device, ports_folder / port));
    }
  }
  std::ranges::sort(ports, [](const RdmaPort& a, const RdmaPort& b) {
    return std::tie(a.device, a.port) < std::tie(b.device, b.port);
  });
  return ports;
}

}  // namespace harmonaize::transport
