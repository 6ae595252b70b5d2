#include "perf/fabric/status.h"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "perf/fabric/emulation_costs.h"
#include "perf/fabric/namespaces.h"
#include "perf/fabric/roles.h"
#include "perf/fabric/tool.h"
#include "src/base/json_text.h"
#include "src/topology/fabric/link_rate.h"

namespace harmonaize::fabric {
namespace {

using Json = nlohmann::json;

// Bytes sent by each device of a namespace.
Result<std::map<std::string, int64_t>> SentBytes(const std::string& space) {
  HZ_ASSIGN_OR_RETURN(const std::string text,
                      RunTool({"ip", "-n", space, "-j", "-s", "link", "show"}));
  std::map<std::string, int64_t> sent;
  try {
    for (const Json& device : Json::parse(text)) {
      sent[device.at("ifname").get<std::string>()] =
          device.at("stats64").at("tx").at("bytes").get<int64_t>();
    }
  } catch (const Json::exception& error) {
    return SystemError("ip wrote what is not understood: {}", error.what());
  }
  return sent;
}

std::string EndName(const Fabric& fabric, const LinkEnd& end) {
  return end.nic < 0 ? fabric.nodes[static_cast<size_t>(end.node)].name
                     : fabric.EndpointName({end.node, end.nic});
}

std::string HumanBytes(int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

Result<std::vector<LinkStatus>> LinksNow(const Laboratory& laboratory) {
  const Fabric& fabric = laboratory.fabric();
  std::vector<std::map<std::string, int64_t>> sent;
  for (const Node& node : fabric.nodes) {
    HZ_ASSIGN_OR_RETURN(auto of_node, SentBytes(NamespaceName(laboratory.name(), node.name)));
    sent.push_back(std::move(of_node));
  }
  const Disturbances disturbances = laboratory.CurrentDisturbances();
  const NetworkPlan plan(laboratory.name(), laboratory.file(), disturbances);
  std::vector<LinkStatus> links;
  for (size_t i = 0; i < fabric.links.size(); ++i) {
    const int link = static_cast<int>(i);
    LinkStatus& now = links.emplace_back(LinkStatus{.link = link, .up = !disturbances.down[i]});
    for (int end = 0; end < 2; ++end) {
      const size_t direction = static_cast<size_t>(end);
      const size_t node = static_cast<size_t>(fabric.links[i].ends[direction].node);
      const auto changed = disturbances.rates.find(2 * link + end);
      now.bytes_per_second[direction] = changed != disturbances.rates.end()
                                            ? changed->second
                                            : fabric.links[i].bytes_per_second[direction];
      now.sent_bytes[direction] = sent[node][plan.DeviceName(link, end)];
    }
  }
  return links;
}

Result<std::string> StatusTable(Laboratory& laboratory) {
  HZ_ASSIGN_OR_RETURN(const std::vector<LinkStatus> links, LinksNow(laboratory));
  const Fabric& fabric = laboratory.fabric();
  std::string text = fmt::format(
      "Laboratory {}: {} hosts, {} switches, {} links, {} explicit paths\n\n", laboratory.name(),
      fabric.Hosts().size(), fabric.nodes.size() - fabric.Hosts().size(), fabric.links.size(),
      fabric.explicit_paths);
  TextTable hosts({"host", "rack", "NIC", "address", "processes"}, 4);
  const std::vector<RoleProcess> processes = RoleProcesses(laboratory);
  for (const Endpoint& end : fabric.Endpoints()) {
    const Node& node = fabric.nodes[static_cast<size_t>(end.host)];
    const std::string roles = end.nic == 0 ? DescribeRoles(processes, node.name) : "";
    hosts.Add({end.nic == 0 ? node.name : "",
               node.rack < 0 ? "-" : fabric.racks[static_cast<size_t>(node.rack)],
               fabric.NicAt(end).device, fabric.NicAt(end).address, roles});
  }
  hosts.Print(&text);
  text += "\n";
  TextTable table({"link", "from", "to", "state", "rate", "back", "sent", "sent back"}, 4);
  for (const LinkStatus& now : links) {
    const Link& link = fabric.links[static_cast<size_t>(now.link)];
    table.Add({link.name, EndName(fabric, link.ends[0]), EndName(fabric, link.ends[1]),
               now.up ? "up" : "DOWN", FormatLinkRate(now.bytes_per_second[0]),
               FormatLinkRate(now.bytes_per_second[1]), HumanBytes(now.sent_bytes[0]),
               HumanBytes(now.sent_bytes[1])});
  }
  table.Print(&text);
  for (const Flow& flow : laboratory.state().flows) {
    text += fmt::format("\nbackground flow {}: {} to {} at {}", flow.id, flow.from, flow.to,
                        FormatLinkRate(flow.bytes_per_second));
  }
  return text + (laboratory.state().flows.empty() ? "" : "\n");
}

Result<std::string> StatusJson(Laboratory& laboratory) {
  HZ_ASSIGN_OR_RETURN(const std::vector<LinkStatus> links, LinksNow(laboratory));
  const Fabric& fabric = laboratory.fabric();
  Json nodes = Json::array();
  for (const Node& node : fabric.nodes) {
    Json nics = Json::array();
    for (const Nic& nic : node.nics) {
      Json paths = Json::array();
      for (const PathEndpoint& path : nic.paths) {
        paths.push_back({{"device", path.device}, {"address", path.address}});
      }
      nics.push_back({{"device", nic.device}, {"address", nic.address}, {"paths", paths}});
    }
    nodes.push_back({{"name", node.name},
                     {"kind", NodeKindName(node.kind)},
                     {"namespace", NamespaceName(laboratory.name(), node.name)},
                     {"nics", nics}});
    if (node.rack >= 0) nodes.back()["rack"] = fabric.racks[static_cast<size_t>(node.rack)];
  }
  Json link_list = Json::array();
  for (const LinkStatus& now : links) {
    const Link& link = fabric.links[static_cast<size_t>(now.link)];
    link_list.push_back({{"name", link.name},
                         {"from", EndName(fabric, link.ends[0])},
                         {"to", EndName(fabric, link.ends[1])},
                         {"up", now.up},
                         {"bytes_per_second", now.bytes_per_second},
                         {"sent_bytes", now.sent_bytes}});
  }
  Json processes = Json::array();
  for (const RoleProcess& process : RoleProcesses(laboratory)) {
    processes.push_back({{"host", process.host}, {"role", process.role}, {"pid", process.pid}});
  }
  Json flows = Json::array();
  for (const Flow& flow : laboratory.state().flows) {
    flows.push_back({{"id", flow.id},
                     {"pid", flow.pid},
                     {"from", flow.from},
                     {"to", flow.to},
                     {"bytes_per_second", flow.bytes_per_second}});
  }
  const StatedCosts costs = EmulationCosts(laboratory.state().message_seconds);
  const Json document = {{"name", laboratory.name()},
                         {"folder", laboratory.folder().path()},
                         {"explicit_paths", fabric.explicit_paths},
                         {"nodes", nodes},
                         {"links", link_list},
                         {"processes", processes},
                         {"flows", flows},
                         // Named as by 'harmonaize plan' and in the daemon's [costs].
                         {"costs",
                          {{"message_us", costs.message_us},
                           {"handling_us", costs.handling_us},
                           {"wire_gbps", costs.wire_gbps},
                           {"shared_processors", costs.shared_processors},
                           {"bucket_ms", costs.bucket_ms}}}};
  return JsonText(document, 2) + "\n";
}

}  // namespace harmonaize::fabric
