#include "src/probing/rdma_counters.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "src/base/kernel_files.h"

namespace harmonaize {
namespace {

// Reads a counter of data, which counts words of four bytes on any link.
std::optional<uint64_t> BytesOfWordsIn(const std::filesystem::path& file) {
  const std::optional<uint64_t> words = NumberIn(file);
  return words ? std::optional<uint64_t>(*words * 4) : std::nullopt;
}

RdmaCounters ReadPort(const std::string& device, const std::filesystem::path& folder) {
  // The folders of the standard's counters and of the driver's own.
  const std::filesystem::path standard = folder / "counters";
  const std::filesystem::path own = folder / "hw_counters";
  RdmaCounters counters;
  counters.device = device;
  counters.port = std::atoi(folder.filename().c_str());
  counters.sent_bytes = BytesOfWordsIn(standard / "port_xmit_data");
  counters.received_bytes = BytesOfWordsIn(standard / "port_rcv_data");
  counters.send_wait_ticks = NumberIn(standard / "port_xmit_wait");
  counters.marked_packets = NumberIn(own / "np_ecn_marked_roce_packets");
  counters.sent_congestion_notifications = NumberIn(own / "np_cnp_sent");
  counters.handled_congestion_notifications = NumberIn(own / "rp_cnp_handled");
  counters.out_of_sequence_packets = NumberIn(own / "out_of_sequence");
  counters.sequence_errors = NumberIn(own / "packet_seq_err");
  counters.acknowledgement_timeouts = NumberIn(own / "local_ack_timeout_err");
  return counters;
}

}  // namespace

std::vector<RdmaCounters> ReadRdmaCounters(const std::string& folder) {
  std::vector<RdmaCounters> counters;
  for (const std::string& device : NamesIn(folder)) {
    const std::filesystem::path ports = std::filesystem::path(folder) / device / "ports";
    for (const std::string& port : NamesIn(ports)) {
      counters.push_back(ReadPort(device, ports / port));
    }
  }
  std::ranges::sort(counters, [](const RdmaCounters& a, const RdmaCounters& b) {
    return std::tie(a.device, a.port) < std::tie(b.device, b.port);
  });
  return counters;
}

}  // namespace harmonaize
