#include "daemon/plans/host_plan.h"

#include <algorithm>
#include <utility>

namespace harmonaize::daemon {
namespace {

// Bytes of a slice of a send: long enough that messages cost little beside their bytes, short
// enough that several rails are busy.
constexpr uint64_t kPairSliceBytes = uint64_t{128} << 10;
// Most slices of a send that are under way at a time.
constexpr int kPairSlicesAtOnce = 8;

std::vector<int> PeersOf(const NetworkProgram& program) {
  std::vector<int> peers;
  for (const NetworkStep& step : program.steps()) {
    if (step.peer_host >= 0) peers.push_back(step.peer_host);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::unique_ptr<RailTable> RailsFor(const FabricModel& model, int host,
                                    const std::vector<MessageLanes>& lanes) {
  const FabricRails rails(model.fabric());
  auto table = std::make_unique<RailTable>(rails, host);
  for (const MessageLanes& one : lanes) {
    table->SetLanes(rails, one.to_host, one.path, one.lanes);
  }
  return table;
}

}  // namespace

Result<PlanSpec> SpecOf(const CollectivePlan& plan) {
  PlanSpec spec;
  spec.algorithm = FindAlgorithm(plan.algorithm);
  if (spec.algorithm == nullptr) {
    return InvalidArgument("the algorithm '{}' is not known here", plan.algorithm);
  }
  spec.order = {.name = plan.order_name, .hosts = plan.order};
  spec.groups = plan.groups;
  spec.groups_name = plan.groups_name;
  spec.pieces = plan.pieces;
  spec.paths = plan.paths;
  return spec;
}

Result<HostPart> MakeHostPart(RatedModels* models, const Problem& problem, int host,
                              const CollectivePlan& plan, const EdgeRates& now) {
  HZ_ASSIGN_OR_RETURN(const PlanSpec spec, SpecOf(plan));
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<const FabricModel> planned_for, models->With(plan.rates));
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<const FabricModel> rated, models->With(now));
  PlannerOptions options;
  options.policy = PlanPolicy::kFixed;
  options.fixed = spec;
  HZ_ASSIGN_OR_RETURN(Planner made, Planner::Make(*planned_for, problem, options));
  const auto planner = std::make_shared<const Planner>(std::move(made));
  const uint64_t bytes = SizeClasses()[static_cast<size_t>(plan.key.size_class)];
  HZ_ASSIGN_OR_RETURN(const auto outline,
                      planner->OutlineOf(planner->PlanFor(bytes).plans.front()));
  const int position = outline->placement().PositionOfHost(host);
  HostPart part;
  const bool encodes = plan.wire != WireFormat::kSame;
  part.program = std::make_unique<NetworkProgram>(
      outline->Program(position), outline->pieces(),
      encodes ? NetworkProgram::Messages::kPlainOrEncoded : NetworkProgram::Messages::kPlain);
  if (encodes && part.program->encoded() == nullptr) {
    return InternalError("the algorithm '{}' sends inputs, which no format may change",
                         plan.algorithm);
  }
  part.peers = PeersOf(*part.program);
  part.one_connection = spec.paths == PathUse::kEcmp;
  // The planner borrows its model.
  part.deal = [planner, model = planned_for, host](const FabricModel& other) {
    return RailsFor(other, host, planner->LanesFrom(0, host, other));
  };
  part.rails = part.deal(*rated);
  part.dealt_for = now;
  part.slice = {plan.slice_bytes, plan.slices_at_once};
  part.wire = plan.wire;
  return part;
}

uint64_t HostPart::SliceBytes(WireFormat format) const {
  // A slice that was chosen for `wire` is longer, by what its messages are shorter.
  const double share = WireShareOf(wire) / WireShareOf(format);
  return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(slice.bytes) * share));
}

Result<HostPart> MakePairPart(RatedModels* models, int host, int peer, bool sends,
                              const EdgeRates& now) {
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<const FabricModel> rated, models->With(now));
  HostProgram program{.host = host};
  Step step{.kind = sends ? StepKind::kSend : StepKind::kReceive, .peer_host = peer};
  if (sends) {
    step.sources.push_back(InputBlock(0, 0));
  } else {
    step.destinations.push_back(OutputBlock(0, 0));
  }
  program.steps.push_back(std::move(step));
  HostPart part;
  part.program = std::make_unique<NetworkProgram>(program, 1);
  part.peers = {peer};
  part.deal = [host, peer](const FabricModel& other) {
    return RailsFor(other, host, {{peer, -1, other.Lanes(host, peer, PathUse::kWeighted)}});
  };
  part.rails = part.deal(*rated);
  part.dealt_for = now;
  part.slice = {kPairSliceBytes, kPairSlicesAtOnce};
  return part;
}

HostPlan::HostPlan(HostPart part, std::vector<transport::PeerId> peers, bool own_rails, Share share,
                   Cluster* cluster, WorkEngine* work)
    : part_(std::move(part)),
      dealing_for_(part_.dealt_for),
      peers_(std::move(peers)),
      own_rails_(own_rails),
      share_(std::move(share)),
      cluster_(cluster),
      work_(work),
      port_(std::make_unique<TransportPort>(
          &cluster->transport(), peers_,
          [this](const MessageName& name, size_t bytes) { return RailOf(name, bytes); })) {}

void HostPlan::Deal(const EdgeRates& rates, std::unique_ptr<RailTable> rails) {
  if (rates != dealing_for_) return;  // newer ones follow
  part_.dealt_for = rates;
  part_.rails = std::move(rails);
}

bool HostPlan::StartDealing(const EdgeRates& rates) {
  if (dealing_for_ == rates) return false;
  dealing_for_ = rates;
  return true;
}

int64_t HostPlan::TakeGrowth(NetworkExecution* execution) {
  const size_t own = std::max(told_bytes_, part_.program->memory_bytes() + port_->memory_bytes());
  const size_t growth = execution->TakeGrowth() + (own - std::exchange(told_bytes_, own));
  return static_cast<int64_t>(growth);
}

transport::RailChoice HostPlan::RailOf(const MessageName& name, size_t bytes) {
  const size_t rails = cluster_->RailsTo(peers_[static_cast<size_t>(name.host)]);
  const bool is_short = bytes <= RailTable::kShortBytes;
  transport::RailChoice choice{is_short ? name.operation : name.number + name.slice,
                               part_.one_connection};
  if (own_rails_) choice = part_.rails->Next(name, bytes);
  choice.rail %= std::max<size_t>(rails, 1);
  choice.share = share_();
  return choice;
}

std::optional<transport::RailChoice> HostPlan::RailAmong(int fabric_host,
                                                         const RailTable::Admits& admits) {
  const size_t rails = std::max<size_t>(cluster_->RailsTo(PeerOf(fabric_host)), 1);
  std::optional<transport::RailChoice> choice;
  if (own_rails_) {
    choice = part_.rails->NextAmong(fabric_host, [&](size_t rail) { return admits(rail % rails); });
  } else {
    for (size_t rail = 0; rail < rails && !choice.has_value(); ++rail) {
      if (admits(rail)) choice = {.rail = rail, .first_connection = part_.one_connection};
    }
  }
  if (!choice.has_value()) return choice;
  choice->rail %= rails;
  choice->share = share_();
  return choice;
}

NetworkExecution* HostPlan::Take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<NetworkExecution>(work_, port_.get()));
    free_.push_back(all_.back().get());
  }
  NetworkExecution* const execution = free_.back();
  free_.pop_back();
  return execution;
}

}  // namespace harmonaize::daemon
