#pragma once

#include <functional>
#include <string>
#include <utility>

#include "perf/fabric/laboratory_folder.h"
#include "perf/fabric/network_plan.h"
#include "src/base/status.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::fabric {

/// A fabric of emulated hosts on this machine, which outlives the processes that change it. Each
/// object holds the laboratory's lock from its making to Unlock. Not thread safe.
class Laboratory {
 public:
  /// Makes the fabric that `path` describes, under `name` or, when that is empty, the fabric's own
  /// name. What a command that was killed left under this name is removed first. Fails, leaving
  /// nothing behind, when one is up already, when a step fails, or when `interrupted` says so.
  static Result<Laboratory> Up(const std::string& path, const std::string& name,
                               const std::function<bool()>& interrupted);
  /// The laboratory `name`, or the only one when that is empty. kUnavailable when there is none,
  /// kInvalidUsage when it is half made.
  static Result<Laboratory> Open(const std::string& name);
  /// Ends all processes within and removes everything. True when there was something to remove.
  static Result<bool> Down(const std::string& name);
  /// The name that an empty one stands for. kUnavailable, kInvalidUsage when there is none, or
  /// several.
  static Result<std::string> TheOnlyName();

  const std::string& name() const { return folder_.name(); }
  const Fabric& fabric() const { return file_.fabric; }
  const FabricFile& file() const { return file_; }
  const LaboratoryFolder& folder() const { return folder_; }
  LaboratoryState& state() { return state_; }
  const LaboratoryState& state() const { return state_; }
  Status SaveState() const { return folder_.Save(state_); }
  Disturbances CurrentDisturbances() const;

  /// A node's namespace. kInvalidArgument with the nearest name when there is no such node.
  Result<std::string> NamespaceOf(const std::string& node) const;
  /// "host", "host:device" as an end of traffic. The first NIC when none is named.
  Result<Endpoint> EndpointNamed(const std::string& text) const;
  /// A link by its name, or by its two ends "a,b" when they are joined by one link.
  Result<int> LinkNamed(const std::string& text) const;

  /// Both rates of a link, from its first end and back, in bytes a second.
  Status SetRate(int link, double forth, double back);
  /// Cuts a link or mends it. `reroute`: routers learn of it and ECMP goes round it; otherwise what
  /// is sent that way is lost.
  Status SetDown(int link, bool down, bool reroute);

  /// Lets other commands change the laboratory; this object may still be read.
  void Unlock() { lock_ = LaboratoryLock(); }

 private:
  Laboratory(LaboratoryFolder folder, LaboratoryLock lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  Status Make(const std::function<bool()>& interrupted);
  Status PrepareNode(int node);
  /// Runs a batch of `tool` ("ip", "tc") that is kept as `file` of the folder; "" for no namespace.
  Status RunBatch(const std::string& tool, const std::string& space, const std::string& file,
                  const std::string& batch);
  Status ApplyRoutes();
  NetworkPlan Plan() const { return NetworkPlan(name(), file_, CurrentDisturbances()); }
  std::string SpaceOf(int node) const;
  /// Removes everything of the laboratory but its lock's file.
  static Status Clean(const LaboratoryFolder& folder, const LaboratoryLock& lock);

  LaboratoryFolder folder_;
  LaboratoryLock lock_;
  FabricFile file_;
  LaboratoryState state_;
};

}  // namespace harmonaize::fabric
