#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/runtime/lifetime.h"
#include "src/executor/host/work_engine.h"
#include "src/executor/network/network_execution.h"
#include "src/executor/network/network_program.h"
#include "src/executor/network/rail_table.h"
#include "src/executor/network/transport_port.h"
#include "src/planner/collective_plan.h"
#include "src/planner/fabric_model.h"
#include "src/planner/planner.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize::daemon {

/// This host's part of one plan, before any daemon was reached. Hosts have the fabric's numbers.
struct HostPart {
  std::unique_ptr<NetworkProgram> program;
  std::vector<int> peers;  ///< Hosts that it exchanges messages with.
  /// Deals its messages out over rails, by what links carry. Takes milliseconds. Thread: any.
  using Deal = std::function<std::unique_ptr<RailTable>(const FabricModel& rated)>;
  Deal deal;
  EdgeRates dealt_for;  ///< The rates that `rails` was made for.
  std::unique_ptr<RailTable> rails;
  bool one_connection = false;  ///< Whether one connection of each rail is used: PathUse::kEcmp.
  SliceCut slice;
  WireFormat wire = WireFormat::kSame;  ///< As in CollectivePlan.

  /// Returns how many bytes of data go at a time in messages of a format: about as many bytes of
  /// messages whichever it is.
  uint64_t SliceBytes(WireFormat format) const;
};

/// Returns what a plan of the home's says to do. Returns kInvalidArgument for an algorithm that is
/// not known here.
Result<PlanSpec> SpecOf(const CollectivePlan& plan);
/// Makes this host's part of a collective by the home's plan, with its messages dealt out for
/// `now`. Takes up to seconds. Returns kInvalidArgument or kInternalError for a plan that cannot be
/// made here. Thread: any.
Result<HostPart> MakeHostPart(RatedModels* models, const Problem& problem, int host,
                              const CollectivePlan& plan, const EdgeRates& now);
/// Makes this host's part of a send to another host, or of a receive from it. Rank 0 of the binding
/// is this side.
Result<HostPart> MakePairPart(RatedModels* models, int host, int peer, bool sends,
                              const EdgeRates& now);

/// A plan that can be run: the part of this host, with the daemons of the others. Thread: engine.
class HostPlan {
 public:
  /// `peers` is by the fabric's hosts. `own_rails` tells whether the fabric is the one by which
  /// this daemon's rails are numbered; else messages are dealt over all rails there are. `share`
  /// tells whose messages they are, and is asked for each one: it changes.
  using Share = std::function<const transport::TenantShare&()>;
  HostPlan(HostPart part, std::vector<transport::PeerId> peers, bool own_rails, Share share,
           Cluster* cluster, WorkEngine* work);

  /// Lets messages that are begun from now on go by other rails, also in the midst of an operation.
  /// This is the sender's own affair, since messages are received by whatever rail they come.
  void Deal(const EdgeRates& rates, std::unique_ptr<RailTable> rails);
  const HostPart::Deal& deal() const { return part_.deal; }
  /// Returns whether its messages have to be dealt out anew for these rates, and notes that they
  /// will be: Deal follows.
  bool StartDealing(const EdgeRates& rates);
  const Lifetime& lifetime() const { return lifetime_; }

  /// Returns the peer of a fabric's host, and the rail of a message to it.
  transport::PeerId PeerOf(int fabric_host) const {
    return peers_[static_cast<size_t>(fabric_host)];
  }
  transport::RailChoice RailOf(const MessageName& name, size_t bytes);
  /// Returns the rail of a message, which no program sends, among those that `admits` lets through;
  /// nullopt if there is none.
  std::optional<transport::RailChoice> RailAmong(int fabric_host, const RailTable::Admits& admits);

  const NetworkProgram& program() const { return *part_.program; }
  const SliceCut& slice() const { return part_.slice; }
  WireFormat wire() const { return part_.wire; }
  uint64_t SliceBytes(WireFormat format) const { return part_.SliceBytes(format); }

  /// Returns an execution that is not under way. It belongs to this plan, and is to be given back.
  NetworkExecution* Take();
  void GiveBack(NetworkExecution* execution) { free_.push_back(execution); }
  /// Returns by how many bytes the plan has grown since the last call: by what this execution of it
  /// keeps, and by the plan itself.
  int64_t TakeGrowth(NetworkExecution* execution);
  /// Returns whether an execution is under way.
  bool in_use() const { return free_.size() < all_.size(); }

 private:
  HostPart part_;
  EdgeRates dealing_for_;  // the last rates that Deal was announced for
  const std::vector<transport::PeerId> peers_;
  const bool own_rails_;
  const Share share_;
  Cluster* const cluster_;
  WorkEngine* const work_;
  std::unique_ptr<TransportPort> port_;
  std::vector<std::unique_ptr<NetworkExecution>> all_;
  size_t told_bytes_ = 0;  // by TakeGrowth, of the plan itself
  std::vector<NetworkExecution*> free_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
