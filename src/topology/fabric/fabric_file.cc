#include "src/topology/fabric/fabric_file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "src/base/clean_text.h"
#include "src/base/names.h"
#include "src/base/toml_reader.h"
#include "src/topology/fabric/fabric_addresses.h"
#include "src/topology/fabric/fabric_routing.h"
#include "src/topology/fabric/link_rate.h"

namespace harmonaize {
namespace {

constexpr int64_t kMostNics = 16;
constexpr int64_t kMostParallelLinks = 64;
/// Most bytes of a text that describes an invalid fabric: it quotes the file, which may be another
/// host's.
constexpr size_t kMostProblem = 1024;

std::string Key(std::string_view list, size_t index, std::string_view name) {
  return fmt::format("{}[{}].{}", list, index, name);
}

/// Reads the sections of one document into a Fabric. Mistakes go to the reader, which knows their
/// place.
class FabricReader {
 public:
  FabricReader(TomlReader& reader, std::string default_name) : reader_(reader) {
    file_.fabric.name = std::move(default_name);
  }

  Result<FabricFile> Read() {
    ReadGeneral();
    for (size_t i = 0, hosts = reader_.Tables("host"); i < hosts; ++i) ReadHosts(i);
    for (size_t i = 0, switches = reader_.Tables("switch"); i < switches; ++i) ReadSwitches(i);
    for (size_t i = 0, links = reader_.Tables("link"); i < links; ++i) ReadLinks(i);
    for (size_t i = 0, paths = reader_.Tables("path"); i < paths; ++i) ReadPath(i);
    HZ_RETURN_IF_ERROR(reader_.Finish());
    fabric_.explicit_paths = CountExplicitPaths();
    HZ_RETURN_IF_ERROR(AssignAddresses(network_, &fabric_));
    HZ_RETURN_IF_ERROR(ValidateFabric(fabric_));
    return std::move(file_);
  }

 private:
  void ReadGeneral() {
    reader_.String("fabric.name", &fabric_.name);
    if (!IsFabricName(fabric_.name)) {
      reader_.Reject("fabric.name", fmt::format("'{}' cannot name a fabric: a name has up to 32 "
                                                "letters, digits, '_' and '-'",
                                                fabric_.name));
    }
    reader_.String("fabric.network", &network_);
    if (const Status status = CheckNetwork(network_); !status.ok()) {
      reader_.Reject("fabric.network", status.message());
    }
    reader_.Integer("routing.explicit_paths", 0, kMostExplicitPaths, &stated_paths_);
    LaboratorySettings& laboratory = file_.laboratory;
    reader_.Integer("laboratory.mtu", 576, 65535, &laboratory.mtu);
    reader_.Integer("laboratory.queue_bytes", 0, int64_t{1} << 30, &laboratory.queue_bytes);
  }

  /// Reads the names of a [[host]] or [[switch]], and its rack.
  std::vector<std::string> ReadNames(std::string_view list, size_t index, int* rack) {
    std::vector<std::string> names;
    reader_.StringList(Key(list, index, "name"), &names);
    if (names.empty()) {
      reader_.Reject(Key(list, index, "name"), fmt::format("a [[{}]] needs a 'name'", list));
    }
    std::string rack_name;
    reader_.String(Key(list, index, "rack"), &rack_name);
    *rack = rack_name.empty() ? -1 : RackNamed(rack_name);
    for (const std::string& name : names) {
      if (fabric_.FindNode(name) < 0) continue;
      reader_.Reject(Key(list, index, "name"),
                     fmt::format("a node named '{}' is there already", name));
    }
    return names;
  }

  int RackNamed(const std::string& name) {
    const auto found = std::find(fabric_.racks.begin(), fabric_.racks.end(), name);
    if (found == fabric_.racks.end()) fabric_.racks.push_back(name);
    return static_cast<int>(std::find(fabric_.racks.begin(), fabric_.racks.end(), name) -
                            fabric_.racks.begin());
  }

  void ReadHosts(size_t index) {
    Node host{.kind = NodeKind::kHost, .forwards = false};
    const std::vector<std::string> names = ReadNames("host", index, &host.rack);
    reader_.Boolean(Key("host", index, "forwards"), &host.forwards);
    const std::string nics = Key("host", index, "nic");
    const size_t count = reader_.Tables(nics);
    if (count > 0 && names.size() > 1) {
      reader_.Reject(nics, "NICs are stated for one host at a time");
    }
    for (size_t i = 0; i < count; ++i) host.nics.push_back(ReadNic(nics, i));
    for (const std::string& name : names) {
      host.name = name;
      fabric_.nodes.push_back(host);
    }
  }

  Nic ReadNic(const std::string& nics, size_t index) {
    Nic nic{.device = fmt::format("nic{}", index)};
    reader_.String(Key(nics, index, "device"), &nic.device);
    reader_.String(Key(nics, index, "address"), &nic.address);
    const std::string paths = Key(nics, index, "path");
    for (size_t i = 0, count = reader_.Tables(paths); i < count; ++i) {
      PathEndpoint& path = nic.paths.emplace_back();
      reader_.String(Key(paths, i, "device"), &path.device);
      reader_.String(Key(paths, i, "address"), &path.address);
      if (path.address.empty()) {
        reader_.Reject(Key(paths, i, "address"), "a path needs an 'address'");
      }
      if (path.device.empty()) path.device = PathDevice(nic.device, i);
    }
    return nic;
  }

  void ReadSwitches(size_t index) {
    Node node{.kind = NodeKind::kLeaf, .forwards = true};
    const std::vector<std::string> names = ReadNames("switch", index, &node.rack);
    std::string role = "leaf";
    reader_.Choice(Key("switch", index, "role"), {"leaf", "spine", "core"}, &role);
    if (role == "spine") node.kind = NodeKind::kSpine;
    if (role == "core") node.kind = NodeKind::kCore;
    for (const std::string& name : names) {
      node.name = name;
      fabric_.nodes.push_back(node);
    }
  }

  std::optional<double> ReadRate(const std::string& key, std::optional<double> otherwise) {
    std::string text;
    reader_.String(key, &text);
    if (text.empty() && !reader_.Has(key)) return otherwise;
    const Result<double> rate = ParseLinkRate(text);
    if (rate.ok()) return *rate;
    reader_.Reject(key, rate.status().message());
    return otherwise;
  }

  void ReadLinks(size_t index) {
    std::vector<std::string> from;
    std::vector<std::string> to;
    for (const auto& [key, ends] : {std::pair("from", &from), std::pair("to", &to)}) {
      reader_.StringList(Key("link", index, key), ends);
      if (!reader_.Has(Key("link", index, key))) {
        reader_.Reject(Key("link", index, key), fmt::format("a [[link]] needs '{}'", key));
      }
    }
    Link link;
    reader_.String(Key("link", index, "name"), &link.name);
    const std::optional<double> rate = ReadRate(Key("link", index, "rate"), std::nullopt);
    if (!reader_.Has(Key("link", index, "rate"))) {
      reader_.Reject(Key("link", index, "rate"), "a [[link]] needs a 'rate', as in \"500Mbit\"");
    }
    const std::optional<double> back = ReadRate(Key("link", index, "rate_back"), rate);
    link.bytes_per_second = {rate.value_or(0), back.value_or(0)};
    double latency_us = 0;
    reader_.Number(Key("link", index, "latency_us"), 0, 1e6, &latency_us);
    link.latency_seconds = latency_us * 1e-6;
    int64_t count = 1;
    reader_.Integer(Key("link", index, "count"), 1, kMostParallelLinks, &count);
    if (!link.name.empty()) CheckLinkName(index, link.name, from.size() * to.size(), count);
    for (const std::string& a : from) {
      for (const std::string& b : to) {
        for (int64_t i = 0; i < count; ++i) AddLink(index, a, b, link);
      }
    }
  }

  void CheckLinkName(size_t index, const std::string& name, size_t pairs, int64_t count) {
    const std::string key = Key("link", index, "name");
    if (pairs != 1 || count != 1) reader_.Reject(key, "only a single link can be given a name");
    if (!IsFabricName(name)) reader_.Reject(key, fmt::format("'{}' cannot name a link", name));
    if (fabric_.FindLink(name) >= 0) {
      reader_.Reject(key, fmt::format("a link named '{}' is there already", name));
    }
  }

  void AddLink(size_t index, const std::string& a, const std::string& b, Link link) {
    const int number = static_cast<int>(fabric_.links.size());
    const LinkEnd first = TakeEnd(Key("link", index, "from"), a, number);
    const LinkEnd second = TakeEnd(Key("link", index, "to"), b, number);
    if (first.node < 0 || second.node < 0) return;
    link.ends = {first, second};
    if (link.name.empty()) link.name = LinkNameBetween(first.node, second.node);
    fabric_.links.push_back(std::move(link));
  }

  std::string LinkNameBetween(int a, int b) const {
    const std::string base = fmt::format("{}-{}", fabric_.nodes[static_cast<size_t>(a)].name,
                                         fabric_.nodes[static_cast<size_t>(b)].name);
    std::string name = base;
    for (int i = 1; fabric_.FindLink(name) >= 0; ++i) name = fmt::format("{}.{}", base, i);
    return name;
  }

  /// Returns the end that "host", "host:device" or "switch" names; node -1 when it is wrong.
  LinkEnd TakeEnd(const std::string& key, const std::string& text, int link) {
    const size_t colon = text.find(':');
    const int index = NodeNamed(key, text.substr(0, colon), [](const Node&) { return true; });
    if (index < 0) return {};
    Node& node = fabric_.nodes[static_cast<size_t>(index)];
    if (node.kind != NodeKind::kHost) {
      if (colon == std::string::npos) return {.node = index, .nic = -1};
      reader_.Reject(key, fmt::format("'{}' is a switch: its ports have no names", node.name));
      return {};
    }
    const int nic = colon == std::string::npos ? FreeNic(node) : NamedNic(node, text, colon);
    Nic& taken = node.nics[static_cast<size_t>(nic)];
    if (taken.link >= 0) {
      reader_.Reject(
          key, fmt::format("NIC '{}' of host '{}' has a link already", taken.device, node.name));
      return {};
    }
    if (node.nics.size() > static_cast<size_t>(kMostNics)) {
      reader_.Reject(key, fmt::format("host '{}' has more than {} NICs", node.name, kMostNics));
      return {};
    }
    taken.link = link;
    return {.node = index, .nic = nic};
  }

  static int FreeNic(Node& host) {
    for (size_t i = 0; i < host.nics.size(); ++i) {
      if (host.nics[i].link < 0) return static_cast<int>(i);
    }
    host.nics.push_back({.device = fmt::format("nic{}", host.nics.size())});
    return static_cast<int>(host.nics.size()) - 1;
  }

  static int NamedNic(Node& host, const std::string& text, size_t colon) {
    const std::string device = text.substr(colon + 1);
    for (size_t i = 0; i < host.nics.size(); ++i) {
      if (host.nics[i].device == device) return static_cast<int>(i);
    }
    host.nics.push_back({.device = device});
    return static_cast<int>(host.nics.size()) - 1;
  }

  template <typename Suits>
  int NodeNamed(const std::string& key, const std::string& name, Suits suits) {
    const int index = fabric_.FindNode(name);
    if (index >= 0 && suits(fabric_.nodes[static_cast<size_t>(index)])) return index;
    std::vector<std::string_view> names;
    for (const Node& node : fabric_.nodes) {
      if (suits(node)) names.push_back(node.name);
    }
    const char* what =
        index >= 0 ? "'{}' is a host that does not forward{}" : "there is no host or switch '{}'{}";
    reader_.Reject(key, fmt::format(fmt::runtime(what), name, DidYouMean(name, names)));
    return -1;
  }

  void ReadPath(size_t index) {
    PathPreference path{.name = fmt::format("path{}", index)};
    reader_.String(Key("path", index, "name"), &path.name);
    std::vector<std::string> through;
    reader_.StringList(Key("path", index, "through"), &through);
    if (through.empty()) {
      reader_.Reject(Key("path", index, "through"),
                     "a [[path]] needs 'through', a list of switches");
    }
    for (const std::string& name : through) {
      const int node = NodeNamed(Key("path", index, "through"), name,
                                 [](const Node& one) { return one.forwards; });
      if (node >= 0) path.through.push_back(node);
    }
    fabric_.preferences.push_back(std::move(path));
  }

  int CountExplicitPaths() const {
    if (stated_paths_ >= 0) return static_cast<int>(stated_paths_);
    size_t stated = fabric_.preferences.size();
    for (const Endpoint& endpoint : fabric_.Endpoints()) {
      stated = std::max(stated, fabric_.NicAt(endpoint).paths.size());
    }
    if (stated > 0) return static_cast<int>(stated);
    const int fanout = FabricRouting(fabric_).Fanout();
    // If there is only one way, the NIC's own address leads along it.
    return fanout < 2 ? 0 : std::min(fanout, kMostExplicitPaths);
  }

  TomlReader& reader_;
  FabricFile file_;
  Fabric& fabric_ = file_.fabric;
  std::string network_ = kDefaultNetwork;
  int64_t stated_paths_ = -1;
};

}  // namespace

Result<FabricFile> ParseFabricFile(std::string_view text, const std::string& name) {
  HZ_ASSIGN_OR_RETURN(TomlReader reader, TomlReader::FromString(text, name));
  Result<FabricFile> file =
      FabricReader(reader, std::filesystem::path(name).stem().string()).Read();
  if (file.ok() || file.status().message().starts_with(name + ":")) return file;
  return Status(file.status().code(),
                fmt::format("{}: {}", name, CleanText(file.status().message(), kMostProblem)));
}

Result<FabricFile> LoadFabricFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return ErrnoError(errno, fmt::format("cannot read {}", path));
  std::ostringstream text;
  text << file.rdbuf();
  return ParseFabricFile(text.str(), path);
}

}  // namespace harmonaize
