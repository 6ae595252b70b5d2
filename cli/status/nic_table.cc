#include "cli/status/nic_table.h"

#include <fmt/format.h>

#include <map>

#include "cli/human_units.h"
#include "cli/text_table.h"
#include "cli/top/growth.h"

namespace harmonaize {
namespace {

std::string RdmaName(const Json& port) {
  return TextAt(port, "device") + ":" + TextAt(port, "port");
}

std::string CountOf(const Json& before, const Json& after, const char* key) {
  const double count = Growth(before, after, key);
  return count < 0 ? kMissing : fmt::format("{:.0f}", count);
}

void PrintEthernet(const Json& before, const Json& after, double seconds, std::string* text) {
  std::map<std::string, Json> earlier;
  for (const Json& nic : ListAt(At(before, "cluster"), "nics"))
    earlier[TextAt(nic, "device")] = nic;
  TextTable table(
      {"NIC", "queue", "sends", "receives", "queued", "dropped there", "dropped", "errors"}, 2);
  for (const Json& nic : ListAt(At(after, "cluster"), "nics")) {
    const Json& was = earlier[TextAt(nic, "device")];
    const Json& queue = At(nic, "queue");
    table.Add({TextAt(nic, "device"), TextAt(queue, "kind"),
               RateOf(was, nic, "sent_bytes", seconds), RateOf(was, nic, "received_bytes", seconds),
               BytesAt(queue, "queued_bytes"), CountOf(At(was, "queue"), queue, "drops"),
               CountOf(was, nic, "receive_drops"), CountOf(was, nic, "errors")});
  }
  if (table.empty()) return;
  *text += "\n";
  table.Print(text);
}

void PrintRdma(const Json& before, const Json& after, double seconds, std::string* text) {
  std::map<std::string, Json> earlier;
  for (const Json& port : ListAt(At(before, "cluster"), "rdma_ports"))
    earlier[RdmaName(port)] = port;
  TextTable table({"RDMA port", "sends", "receives", "marked", "slowed down", "out of order"}, 1);
  for (const Json& port : ListAt(At(after, "cluster"), "rdma_ports")) {
    const Json& was = earlier[RdmaName(port)];
    table.Add({RdmaName(port), RateOf(was, port, "sent_bytes", seconds),
               RateOf(was, port, "received_bytes", seconds), CountOf(was, port, "marked_packets"),
               CountOf(was, port, "handled_congestion_notifications"),
               CountOf(was, port, "out_of_sequence_packets")});
  }
  if (table.empty()) return;
  *text += "\n";
  table.Print(text);
}

}  // namespace

void PrintNics(const Json& before, const Json& after, double seconds, std::string* text) {
  PrintEthernet(before, after, seconds, text);
  PrintRdma(before, after, seconds, text);
}

}  // namespace harmonaize
