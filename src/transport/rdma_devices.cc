#include "src/transport/rdma_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

namespace harmonaize::transport {
namespace {

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

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
  std::error_code failure;
  for (const auto& device : std::filesystem::directory_iterator(folder, failure)) {
    std::error_code no_ports;
    for (const auto& port :
         std::filesystem::directory_iterator(device.path() / "ports", no_ports)) {
      ports.push_back(ReadPort(device.path().filename(), port.path()));
    }
  }
  std::ranges::sort(ports, [](const RdmaPort& a, const RdmaPort& b) {
    return std::tie(a.device, a.port) < std::tie(b.device, b.port);
  });
  return ports;
}

}  // namespace harmonaize::transport
