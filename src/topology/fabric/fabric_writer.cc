#include <fmt/ranges.h>

#include <cerrno>
#include <fstream>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize {
namespace {

/// TOML reads a string that JSON has quoted as a basic string.
std::string Quoted(const std::string& text) {
  return JsonText(nlohmann::json(text));
}

std::string Rate(double bytes_per_second) {
  return fmt::format("\"{}Mbit\"", bytes_per_second * 8 / 1e6);
}

class FabricWriter {
 public:
  explicit FabricWriter(const FabricFile& file) : file_(file), fabric_(file.fabric) {}

  std::string Write() {
    Line("[fabric]");
    Line("name = {}", Quoted(fabric_.name));
    Line("");
    Line("[routing]");
    Line("explicit_paths = {}", fabric_.explicit_paths);
    const LaboratorySettings usual;
    if (file_.laboratory.mtu != usual.mtu || file_.laboratory.queue_bytes != usual.queue_bytes) {
      Line("");
      Line("[laboratory]");
      Line("mtu = {}", file_.laboratory.mtu);
      Line("queue_bytes = {}", file_.laboratory.queue_bytes);
    }
    for (const Node& node : fabric_.nodes) WriteNode(node);
    for (const Link& link : fabric_.links) WriteLink(link);
    for (const PathPreference& path : fabric_.preferences) WritePath(path);
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  void WriteNode(const Node& node) {
    const bool host = node.kind == NodeKind::kHost;
    Line("");
    Line("[[{}]]", host ? "host" : "switch");
    Line("name = {}", Quoted(node.name));
    if (node.rack >= 0) {
      Line("rack = {}", Quoted(fabric_.racks[static_cast<size_t>(node.rack)]));
    }
    if (host && node.forwards) Line("forwards = true");
    if (!host) Line("role = \"{}\"", NodeKindName(node.kind));
    for (const Nic& nic : node.nics) {
      Line("[[host.nic]]");
      Line("device = {}", Quoted(nic.device));
      Line("address = {}", Quoted(nic.address));
      for (const PathEndpoint& path : nic.paths) {
        Line("[[host.nic.path]]");
        Line("device = {}", Quoted(path.device));
        Line("address = {}", Quoted(path.address));
      }
    }
  }

  std::string EndName(const LinkEnd& end) const {
    const Node& node = fabric_.nodes[static_cast<size_t>(end.node)];
    if (end.nic < 0) return node.name;
    return fmt::format("{}:{}", node.name, node.nics[static_cast<size_t>(end.nic)].device);
  }

  void WriteLink(const Link& link) {
    Line("");
    Line("[[link]]");
    // A name with a '.' was made up for one of several parallel links, and will be made up again.
    if (IsFabricName(link.name)) Line("name = {}", Quoted(link.name));
    Line("from = {}", Quoted(EndName(link.ends[0])));
    Line("to = {}", Quoted(EndName(link.ends[1])));
    Line("rate = {}", Rate(link.bytes_per_second[0]));
    if (link.bytes_per_second[1] != link.bytes_per_second[0]) {
      Line("rate_back = {}", Rate(link.bytes_per_second[1]));
    }
    if (link.latency_seconds > 0) Line("latency_us = {}", link.latency_seconds * 1e6);
  }

  void WritePath(const PathPreference& path) {
    std::vector<std::string> through;
    for (const int node : path.through) {
      through.push_back(Quoted(fabric_.nodes[static_cast<size_t>(node)].name));
    }
    Line("");
    Line("[[path]]");
    Line("name = {}", Quoted(path.name));
    Line("through = [{}]", fmt::join(through, ", "));
  }

  const FabricFile& file_;
  const Fabric& fabric_;
  std::string text_;
};

}  // namespace

std::string FormatFabricFile(const FabricFile& file) {
  return FabricWriter(file).Write();
}

Status WriteFabricFile(const std::string& path, const FabricFile& file, std::string_view comment) {
  std::ofstream stream(path);
  size_t start = 0;
  while (start < comment.size()) {
    const size_t end = std::min(comment.find('\n', start), comment.size());
    stream << "# " << comment.substr(start, end - start) << "\n";
    start = end + 1;
  }
  if (!comment.empty()) stream << "\n";
  stream << FormatFabricFile(file) << std::flush;
  if (stream) return Status::Ok();
  return ErrnoError(errno, fmt::format("cannot write {}", path));
}

}  // namespace harmonaize
