#include "perf/fabric/laboratory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "perf/fabric/emulation_costs.h"
#include "perf/fabric/namespaces.h"
#include "perf/fabric/tool.h"
#include "src/base/names.h"
#include "src/topology/fabric/fabric_names.h"

namespace harmonaize::fabric {
namespace {

// Folder of ip's batches, which are kept for inspection.
constexpr char kBatchFolder[] = "batches/";

template <typename Named>
std::vector<std::string_view> NamesOf(const std::vector<Named>& list) {
  std::vector<std::string_view> names;
  for (const Named& one : list) names.push_back(one.name);
  return names;
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return ErrnoError(errno, "cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Status SetKernelParameters(const std::vector<std::pair<std::string, std::string>>& parameters) {
  for (const auto& [key, value] : parameters) {
    // A kernel without IPv6 lacks its parameters.
    if (key.starts_with("net/ipv6/") && !std::filesystem::exists("/proc/sys/net/ipv6")) continue;
    HZ_RETURN_IF_ERROR(SetKernelParameter(key, value));
  }
  return Status::Ok();
}

}  // namespace

Result<Laboratory> Laboratory::Up(const std::string& path, const std::string& name,
                                  const std::function<bool()>& interrupted) {
  HZ_ASSIGN_OR_RETURN(FabricFile file, LoadFabricFile(path));
  HZ_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  if (!name.empty()) file.fabric.name = name;
  if (!IsFabricName(file.fabric.name)) {
    return InvalidArgument("'{}' cannot name a laboratory: letters, digits, '_' and '-'", name);
  }
  HZ_RETURN_IF_ERROR(CheckPrivileges());
  HZ_ASSIGN_OR_RETURN(LaboratoryLock lock, LaboratoryLock::Take(file.fabric.name));
  Laboratory laboratory(LaboratoryFolder(file.fabric.name), std::move(lock));
  laboratory.file_ = std::move(file);
  const Result<LaboratoryState> old = laboratory.folder_.Load();
  if (old.ok() && old->complete) {
    return InvalidUsage("laboratory '{0}' is up; 'fabric down --name {0}' ends it",
                        laboratory.name());
  }
  HZ_RETURN_IF_ERROR(Clean(laboratory.folder_, laboratory.lock_));
  Status made = laboratory.folder_.Write("fabric.toml", text);
  if (made.ok()) made = laboratory.Make(interrupted);
  if (made.ok()) return laboratory;
  const Status cleaned = Clean(laboratory.folder_, laboratory.lock_);
  if (!cleaned.ok()) {
    made = Status(made.code(), fmt::format("{}; and {}", made.message(), cleaned.message()));
  } else {
    laboratory.lock_.RemoveFile();
  }
  return made;
}

Status Laboratory::Make(const std::function<bool()>& interrupted) {
  const Status stopped = Unavailable("interrupted; what was made is removed");
  HZ_RETURN_IF_ERROR(folder_.Save(state_));
  HZ_RETURN_IF_ERROR(RunBatch("ip", "", "create", Plan().Create()));
  for (size_t node = 0; node < fabric().nodes.size(); ++node) {
    if (interrupted()) return stopped;
    HZ_RETURN_IF_ERROR(PrepareNode(static_cast<int>(node)));
  }
  if (interrupted()) return stopped;
  HZ_ASSIGN_OR_RETURN(state_.message_seconds, MeasureMessage());
  state_.complete = true;
  return folder_.Save(state_);
}

Status Laboratory::PrepareNode(int node) {
  const std::string space = SpaceOf(node);
  const NetworkPlan plan = Plan();
  HZ_RETURN_IF_ERROR(
      InNamespace(space, [&] { return SetKernelParameters(plan.KernelParameters(node)); }));
  const std::string& name = fabric().nodes[static_cast<size_t>(node)].name;
  HZ_RETURN_IF_ERROR(RunBatch("ip", space, name + ".ip",
                              plan.Devices(node) + plan.Routes(node) + plan.Rules(node)));
  return RunBatch("tc", space, name + ".tc", plan.Shaping(node));
}

Status Laboratory::RunBatch(const std::string& tool, const std::string& space,
                            const std::string& file, const std::string& batch) {
  HZ_RETURN_IF_ERROR(folder_.Write(kBatchFolder + file, batch));
  std::vector<std::string> words = {tool};
  if (!space.empty()) words.insert(words.end(), {"-n", space});
  words.insert(words.end(), {"-batch", folder_.path() + "/" + kBatchFolder + file});
  return RunTool(words, lock_.fd()).status();
}

Result<std::string> Laboratory::TheOnlyName() {
  const std::vector<std::string> names = LaboratoryFolder::Names();
  if (names.size() == 1) return names[0];
  if (names.empty()) return Unavailable("no laboratory is up; 'fabric up FILE' makes one");
  return InvalidUsage("several laboratories are up, choose with --name: {}",
                      fmt::join(names, ", "));
}

Result<Laboratory> Laboratory::Open(const std::string& name) {
  HZ_ASSIGN_OR_RETURN(const std::string chosen,
                      name.empty() ? TheOnlyName() : Result<std::string>(name));
  const std::vector<std::string> names = LaboratoryFolder::Names();
  if (std::find(names.begin(), names.end(), chosen) == names.end()) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    return Unavailable("no laboratory '{}' is up{}", chosen, DidYouMean(chosen, views));
  }
  HZ_RETURN_IF_ERROR(CheckPrivileges());
  HZ_ASSIGN_OR_RETURN(LaboratoryLock lock, LaboratoryLock::Take(chosen));
  Laboratory laboratory(LaboratoryFolder(chosen), std::move(lock));
  HZ_ASSIGN_OR_RETURN(LaboratoryState state, laboratory.folder_.Load());
  if (!state.complete) {
    return InvalidUsage("laboratory '{0}' is half made; 'fabric down --name {0}' removes it",
                        chosen);
  }
  HZ_ASSIGN_OR_RETURN(FabricFile file, LoadFabricFile(laboratory.folder_.FabricFilePath()));
  laboratory.state_ = std::move(state);
  laboratory.file_ = std::move(file);
  laboratory.file_.fabric.name = chosen;
  return laboratory;
}

Result<bool> Laboratory::Down(const std::string& name) {
  if (!IsFabricName(name)) return InvalidArgument("'{}' cannot name a laboratory", name);
  const LaboratoryFolder folder(name);
  HZ_RETURN_IF_ERROR(CheckPrivileges());
  // The lock is taken even if nothing seems to exist: an 'up' may be dying at this moment.
  HZ_ASSIGN_OR_RETURN(LaboratoryLock lock, LaboratoryLock::Take(name));
  const bool there = folder.Exists() || !NamespacesOf(name).empty();
  HZ_RETURN_IF_ERROR(Clean(folder, lock));
  lock.RemoveFile();
  return there;
}

Status Laboratory::Clean(const LaboratoryFolder& folder, const LaboratoryLock& lock) {
  const std::vector<std::string> spaces = NamespacesOf(folder.name());
  if (!spaces.empty()) {
    HZ_RETURN_IF_ERROR(EndProcessesIn(spaces));
    HZ_RETURN_IF_ERROR(folder.Write("batches/delete", NetworkPlan::Delete(spaces)));
    const std::string batch = folder.path() + "/batches/delete";
    // A namespace that was half made when its maker died may be only a file, about which ip
    // complains.
    const Status deleted = RunTool({"ip", "-force", "-batch", batch}, lock.fd()).status();
    if (!NamespacesOf(folder.name()).empty()) {
      return deleted.ok() ? SystemError("namespaces of '{}' could not be removed", folder.name())
                          : deleted;
    }
  }
  return folder.Remove();
}

Disturbances Laboratory::CurrentDisturbances() const {
  Disturbances disturbances;
  disturbances.down.resize(fabric().links.size());
  disturbances.rerouted = state_.rerouted;
  for (const std::string& name : state_.down) {
    const int link = fabric().FindLink(name);
    if (link >= 0) disturbances.down[static_cast<size_t>(link)] = true;
  }
  for (const auto& [name, rates] : state_.rates) {
    const int link = fabric().FindLink(name);
    if (link < 0) continue;
    disturbances.rates[2 * link] = rates[0];
    disturbances.rates[2 * link + 1] = rates[1];
  }
  return disturbances;
}

std::string Laboratory::SpaceOf(int node) const {
  return NamespaceName(name(), fabric().nodes[static_cast<size_t>(node)].name);
}

Result<std::string> Laboratory::NamespaceOf(const std::string& node) const {
  if (fabric().FindNode(node) >= 0) return NamespaceName(name(), node);
  return InvalidArgument("laboratory '{}' has no host or switch '{}'{}", name(), node,
                         DidYouMean(node, NamesOf(fabric().nodes)));
}

Result<Endpoint> Laboratory::EndpointNamed(const std::string& text) const {
  const size_t colon = text.find(':');
  const std::string host = text.substr(0, colon);
  HZ_RETURN_IF_ERROR(NamespaceOf(host).status());
  const int node = fabric().FindNode(host);
  const std::vector<Nic>& nics = fabric().nodes[static_cast<size_t>(node)].nics;
  if (nics.empty()) return InvalidArgument("'{}' is a switch; traffic is between hosts", host);
  if (colon == std::string::npos) return Endpoint{node, 0};
  const std::string device = text.substr(colon + 1);
  std::vector<std::string_view> devices;
  for (size_t i = 0; i < nics.size(); ++i) {
    if (nics[i].device == device) return Endpoint{node, static_cast<int>(i)};
    devices.push_back(nics[i].device);
  }
  return InvalidArgument("host '{}' has no NIC '{}'; it has {}", host, device,
                         fmt::join(devices, ", "));
}

Result<int> Laboratory::LinkNamed(const std::string& text) const {
  const Result<int> link = harmonaize::LinkNamed(fabric(), text);
  if (link.ok()) return link;
  return InvalidArgument("laboratory '{}': {}; 'fabric status' lists its links", name(),
                         link.status().message());
}

Status Laboratory::SetRate(int link, double forth, double back) {
  const std::string& link_name = fabric().links[static_cast<size_t>(link)].name;
  state_.rates[link_name] = {forth, back};
  HZ_RETURN_IF_ERROR(SaveState());
  for (const LinkEnd& end : fabric().links[static_cast<size_t>(link)].ends) {
    const std::string& node = fabric().nodes[static_cast<size_t>(end.node)].name;
    HZ_RETURN_IF_ERROR(RunBatch("tc", SpaceOf(end.node), node + ".tc", Plan().Shaping(end.node)));
  }
  return Status::Ok();
}

Status Laboratory::SetDown(int link, bool down, bool reroute) {
  const Link& changed = fabric().links[static_cast<size_t>(link)];
  std::erase(state_.down, changed.name);
  if (down) state_.down.push_back(changed.name);
  state_.rerouted = reroute;
  HZ_RETURN_IF_ERROR(SaveState());
  const NetworkPlan plan = Plan();
  for (int end = 0; end < 2; ++end) {
    const int node = changed.ends[static_cast<size_t>(end)].node;
    HZ_RETURN_IF_ERROR(RunTool({"ip", "-n", SpaceOf(node), "link", "set", "dev",
                                plan.DeviceName(link, end), down ? "down" : "up"},
                               lock_.fd())
                           .status());
  }
  return ApplyRoutes();
}

Status Laboratory::ApplyRoutes() {
  const NetworkPlan plan = Plan();
  for (size_t i = 0; i < fabric().nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    HZ_RETURN_IF_ERROR(
        RunBatch("ip", SpaceOf(node), fabric().nodes[i].name + ".routes", plan.Routes(node)));
  }
  return Status::Ok();
}

}  // namespace harmonaize::fabric
