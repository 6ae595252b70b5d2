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
/// object holds the laboratory's lock from its making to Unlock. Thread: one.
class Laboratory {
 public:
  /// Makes the fabric that `path` describes, under `name` or, when that is empty, the fabric's own
  /// name. Remains of a killed command under this name are removed first. Errors: one is up
  /// already, a step fails, or `interrupted` returns true; nothing is left behind then.
  static Result<Laboratory> Up(const std::string& path, const std::string& name,
                               const std::function<bool()>& interrupted);
  /// Returns the laboratory `name`, or the only one when that is empty. Errors: kUnavailable when
  /// there is none, kInvalidUsage when it is half made.
  static Result<Laboratory> Open(const std::string& name);
  /// Ends all processes within and removes everything. Returns whether there was something to
  /// remove.
  static Result<bool> Down(const std::string& name);
  /// Returns the name that an empty one stands for. Errors: kUnavailable when there is none,
  /// kInvalidUsage when there are several.
  static Result<std::string> TheOnlyName();

  const std::string& name() const { return folder_.name(); }
  const Fabric& fabric() const { return file_.fabric; }
  const FabricFile& file() const { return file_; }
  const LaboratoryFolder& folder() const { return folder_; }
  LaboratoryState& state() { return state_; }
  const LaboratoryState& state() const { return state_; }
  Status SaveState() const { return folder_.Save(state_); }
  Disturbances CurrentDisturbances() const;

  /// Returns a node's namespace. Errors: kInvalidArgument with the nearest name when there is no
  /// such node.
  Result<std::string> NamespaceOf(const std::string& node) const;
  /// Returns the end of traffic that "host" or "host:device" names; the first NIC when none is
  /// named.
  Result<Endpoint> EndpointNamed(const std::string& text) const;
  /// Returns a link by its name, or by its two ends "a,b" when one link joins them.
  Result<int> LinkNamed(const std::string& text) const;

  /// Sets both rates of a link, from its first end and back, in bytes a second.
  Status SetRate(int link, double forth, double back);
  /// Cuts a link or mends it. `reroute`: routers learn of it and ECMP avoids it; otherwise data
  /// sent that way is lost.
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
  /// Removes everything of the laboratory except its lock's file.
  static Status Clean(const LaboratoryFolder& folder, const LaboratoryLock& lock);

  LaboratoryFolder folder_;
  LaboratoryLock lock_;
  FabricFile file_;
  LaboratoryState state_;
};

}  // namespace harmonaize::fabric
