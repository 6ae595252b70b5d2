#include "daemon/control/control_loop.h"

#include <algorithm>
#include <map>
#include <set>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/multihost/host_group.h"
#include "daemon/plans/fabrics.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Interval of looks at the traffic, in nanoseconds.
constexpr auto kIntervalNs = static_cast<uint64_t>(LinkState::kIntervalSeconds * 1e9);
/// Shortest time, in nanoseconds, between two lines about links in the log at its usual level:
/// links that waver are no news.
constexpr uint64_t kLogEveryNs = 1'000'000'000;
/// Time, in nanoseconds, for which a daemon that has told of traffic counts as still sending.
constexpr uint64_t kTellingNs = 3 * kIntervalNs;
/// Longest time, in seconds, over which traffic is averaged: a longer mean says nothing of now.
constexpr double kLongestSeconds = 5 * LinkState::kIntervalSeconds;
/// Most communicators of a tenant whose rhythm a daemon tells. The controller gives turns to no
/// more of them (BurstTurns).
constexpr int kMostRhythms = 64;

double Seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace

void ControlLoop::Begin(Cluster* cluster) {
  cluster_ = cluster;
  prober_ = std::make_unique<LinkProber>(
      &cluster->transport(), [cluster](transport::PeerId peer, const ClusterMessage& message) {
        cluster->Send(peer, message);
      });
  if (services_.fabrics->own() == 0 || !services_.config->plans.live) return;
  self_ = cluster->fabric_host();
  WatchNics();
  if (cluster->controller().empty()) return;
  controller_link_ = std::make_unique<ControllerLink>(cluster, cluster->controller());
  if (cluster->controller() != cluster->address()) return;
  controller_ = std::make_unique<Controller>(cluster->fabric());
  Log(LogLevel::kInfo, kLogTuning, "this daemon is the cluster's controller");
}

void ControlLoop::WatchNics() {
  std::vector<std::string> devices;
  for (const Nic& nic : cluster_->fabric()->NodeOf(self_).nics) {
    devices.push_back(nic.device);
  }
  Result<std::unique_ptr<NicWatch>> watch = NicWatch::Open(std::move(devices));
  if (watch.ok()) {
    nics_ = std::move(*watch);
    nics_->Look();
  } else {
    Log(LogLevel::kWarning, kLogTuning, "what NICs count is not looked at: {}",
        watch.status().message());
  }
}

// ---------------------------------------------------------------------------------------------
// Every daemon

void ControlLoop::Tick(uint64_t now_ns) {
  if (prober_ == nullptr) return;
  prober_->Tick(now_ns);
  if (self_ < 0 || now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + kIntervalNs;
  const Active active = FindActive(now_ns);
  if (!active.homes.empty()) TellTraffic(active, now_ns);
  if (controller_link_ != nullptr) controller_link_->Tick(now_ns);
}

bool ControlLoop::IsActive(Communicator& communicator, uint64_t now_ns) {
  const uint64_t begun = communicator.collectives_begun() + communicator.messages();
  const auto [found, is_new] = begun_.try_emplace(communicator.id(), begun);
  const bool went_on = !is_new && found->second != begun;
  found->second = begun;
  // A home without ranks goes by what other daemons tell.
  if (!communicator.has_ranks_here()) return now_ns - told_ns_ < kTellingNs;
  return went_on || communicator.executing();
}

ControlLoop::Active ControlLoop::FindActive(uint64_t now_ns) {
  Active active;
  std::map<uint64_t, uint64_t> still_there;
  for (const auto& [id, communicator] : services_.communicators->all()) {
    const HostGroup* const group = communicator->host_group();
    if (group == nullptr || group->roster().fabric != services_.fabrics->own()) continue;
    const bool is_active = IsActive(*communicator, now_ns);
    still_there.insert(*begun_.find(communicator->id()));
    if (!is_active) continue;
    const Roster& roster = group->roster();
    for (size_t host = 0; host < roster.peers.size(); ++host) {
      const auto& peer = roster.peers[host];
      if (peer.has_value() && *peer != kThisDaemon) active.hosts[*peer] = roster.fabric_hosts[host];
    }
    active.homes.insert(roster.home);
    if (group->is_home()) active.own.push_back(roster.key);
    if (roster.IsLocal(0)) active.led.push_back(communicator.get());
  }
  begun_ = std::move(still_there);
  active.homes.merge(follower_.homes());
  return active;
}

TrafficMessage ControlLoop::LookAtTraffic(const Active& active, uint64_t now_ns) {
  std::vector<transport::PeerId> peers;
  for (const auto& [peer, host] : active.hosts) peers.push_back(peer);
  const std::vector<RailFlow> flows =
      meter_.Look(cluster_->transport().Traffic(peers), Seconds(now_ns), kLongestSeconds);
  TrafficMessage traffic{.fabric = services_.fabrics->own(), .host = self_, .homes = active.own};
  std::map<uint32_t, int> rhythms;  // by tenant
  for (Communicator* const communicator : active.led) {
    const uint64_t key = communicator->host_group()->roster().key;
    const std::optional<Rhythm::Beat> beat =
        communicator->host_group()->gate()->rhythm().Of(now_ns);
    if (!beat.has_value()) continue;
    if (++rhythms[communicator->tenant().identity.across_hosts] > kMostRhythms) continue;
    traffic.rhythms.push_back({communicator->tenant().identity.across_hosts, key, beat->bursts,
                               beat->burst_seconds, beat->pause_seconds, beat->iteration_seconds,
                               beat->begun_seconds});
  }
  std::set<uint64_t> named;
  for (const RailFlow& flow : flows) {
    TrafficFlow& told = traffic.flows.emplace_back(
        TrafficFlow{active.hosts.at(flow.peer), flow.rail, flow.bytes_per_second, flow.busy,
                    flow.arrival_queue_seconds, flow.astray});
    for (const JobRate& job : flow.jobs) {
      told.jobs.push_back(
          {job.tenant, job.communicator, job.weight, job.bytes_per_second, job.sent_bytes});
      named.insert(job.communicator);
    }
  }
  AddTerms(named, &traffic);
  if (nics_ == nullptr) return traffic;
  for (const NicLoad& load : nics_->Loads(static_cast<uint64_t>(kLongestSeconds * 1e9))) {
    traffic.nics.push_back({static_cast<int>(load.nic), load.sent_bytes_per_second,
                            load.received_bytes_per_second, load.queued_bytes});
  }
  nics_->Look();  // for the next time
  return traffic;
}

// Adds the terms of communicators whose traffic is told of. The transport knows a weight as of the
// last message; the present one counts.
void ControlLoop::AddTerms(const std::set<uint64_t>& communicators, TrafficMessage* traffic) const {
  std::map<uint64_t, double> weights;
  for (const uint64_t key : communicators) {
    const Communicator* const communicator = services_.communicators->FindByKey(key);
    if (communicator == nullptr) continue;
    PlanTable& plans = communicator->host_group()->plans();
    const transport::TenantShare& share = plans.share();
    weights[key] = share.weight;
    const LinkBounds& bounds = communicator->tenant().link_bounds;
    traffic->terms.push_back({share.tenant, key, share.owner, share.priority, plans.granted_floor(),
                              share.cap, bounds.most_floor, bounds.most_cap});
  }
  for (TrafficFlow& flow : traffic->flows) {
    for (TrafficJob& job : flow.jobs) {
      const auto found = weights.find(job.communicator);
      if (found != weights.end()) job.weight = found->second;
    }
  }
}

void ControlLoop::TellTraffic(const Active& active, uint64_t now_ns) {
  host_of_peer_ = active.hosts;
  const TrafficMessage traffic = LookAtTraffic(active, now_ns);
  std::set<transport::PeerId> told = active.homes;
  const std::optional<transport::PeerId> controller = ControllersPeer();
  if (controller == kThisDaemon) {
    told.insert(kThisDaemon);
  } else if (controller_link_ != nullptr) {
    if (controller.has_value()) told.erase(*controller);
    controller_link_->Tell(traffic, now_ns);
  }
  for (const transport::PeerId peer : told) Tell(peer, traffic);
}

// ---------------------------------------------------------------------------------------------
// A home

void ControlLoop::Tell(transport::PeerId peer, const ClusterMessage& message) {
  if (peer == kThisDaemon) return OnMessage(kThisDaemon, message);
  cluster_->Send(peer, message);
}

std::optional<transport::PeerId> ControlLoop::ControllersPeer() const {
  if (controller_ != nullptr) return kThisDaemon;
  return controller_link_ == nullptr ? std::nullopt : controller_link_->peer();
}

bool ControlLoop::IsController(transport::PeerId peer, uint64_t fabric) const {
  return fabric == services_.fabrics->own() && peer == ControllersPeer();
}

void ControlLoop::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* probe = message.As<LinkProbeMessage>()) {
    // Probes are received even if plans are left as they are here: other daemons may want to know.
    return prober_->OnProbe(peer, *probe, MonotonicNanoseconds());
  }
  if (self_ < 0) return;
  if (const auto* traffic = message.As<TrafficMessage>()) {
    OnTraffic(peer, *traffic);
  } else if (const auto* shares = message.As<SharesMessage>()) {
    OnShares(peer, *shares);
  } else if (const auto* burst = message.As<BurstMessage>()) {
    OnBurst(peer, *burst);
  } else if (const auto* turn = message.As<BurstTurnMessage>()) {
    OnTurn(peer, *turn);
  } else if (const auto* question = message.As<AskLinkProbeMessage>()) {
    OnAskLinkProbe(peer, *question);
  } else if (const auto* probed = message.As<LinkProbedMessage>()) {
    prober_->OnProbed(peer, *probed, MonotonicNanoseconds());
    OnProbed(probed->probe, probed->bytes_per_second);
  }
}

void ControlLoop::OnTraffic(transport::PeerId peer, const TrafficMessage& traffic) {
  if (traffic.fabric != services_.fabrics->own()) return;
  for (const TrafficFlow& flow : traffic.flows) {
    Log(LogLevel::kTrace, kLogTuning,
        "links: host {} to {} by rail {}: {:.0f} Mbit/s, busy {:.2f}, back in queues {:.1f} ms{}",
        traffic.host, flow.peer, flow.rail, flow.bytes_per_second * 8e-6, flow.busy,
        flow.arrival_queue * 1e3, flow.astray ? ", astray" : "");
    for (const TrafficJob& job : flow.jobs) {
      Log(LogLevel::kTrace, kLogTuning, "links:   of user {} {:.0f} Mbit/s, weight {}", job.user,
          job.bytes_per_second * 8e-6, job.weight);
    }
  }
  const uint64_t now_ns = MonotonicNanoseconds();
  if (peer != kThisDaemon) told_ns_ = now_ns;
  if (links_ == nullptr) links_ = std::make_unique<LinkState>(cluster_->fabric());
  links_->Take(traffic, Seconds(now_ns));
  if (links_->Settle(Seconds(now_ns))) LogLinks(now_ns);
  if (controller_ != nullptr) {
    controller_->Take(peer, traffic, Seconds(now_ns));
    ShareOut(now_ns);
  }
  ReviewPlans(now_ns);
  ProbeIfDue(now_ns);
  Tick(now_ns);  // which has no other caller if no operations are under way
}

void ControlLoop::LogLinks(uint64_t now_ns) {
  const bool quiet = now_ns < next_log_ns_;
  if (!quiet) next_log_ns_ = now_ns + kLogEveryNs;
  Log(quiet ? LogLevel::kDebug : LogLevel::kInfo, kLogTuning, "links: {}",
      DescribeRates(*cluster_->fabric(), links_->rates()));
}

void ControlLoop::ShareOut(uint64_t now_ns) {
  for (auto& [peer, shares] : controller_->Settle(*links_, Seconds(now_ns))) {
    shares.fabric = services_.fabrics->own();
    Tell(peer, shares);
  }
}

void ControlLoop::OnShares(transport::PeerId peer, const SharesMessage& shares) {
  if (!IsController(peer, shares.fabric)) return;
  controller_link_->Take(
      shares, [this](int fabric_host) { return PeerAt(fabric_host); }, MonotonicNanoseconds());
  for (const FloorWord& word : shares.floors) HeedFloor(word);
  std::erase_if(missed_floors_, [this](uint64_t key) {
    return services_.communicators->FindByKey(key) == nullptr;
  });
}

// ---------------------------------------------------------------------------------------------
// Floors

void ControlLoop::HeedFloor(const FloorWord& word) {
  const Communicator* const communicator = services_.communicators->FindByKey(word.communicator);
  if (communicator == nullptr) return;
  HostGroup& group = *communicator->host_group();
  group.plans().SetRefusedFloor(word.refused ? word.floor : 0);
  const bool was_missed = missed_floors_.contains(word.communicator);
  if (!group.is_home() || word.missed == was_missed) return;
  if (word.missed) {
    missed_floors_.insert(word.communicator);
  } else {
    missed_floors_.erase(word.communicator);
  }
  const RequirementChange change{.requirement = "bandwidth_floor",
                                 .met = !word.missed,
                                 .granted = word.floor,
                                 .measured = word.missed ? word.had : word.floor,
                                 .unit = "bytes_per_second"};
  communicator->observers().Tell(&CommunicatorObserver::OnRequirementChanged, *communicator,
                                 change);
}

Result<double> ControlLoop::MostFloor() const {
  if (self_ < 0) {
    return InvalidArgument(
        "no floor of bandwidth can be kept here: the provider has no map of the links");
  }
  if (controller_link_ == nullptr) {
    return InvalidArgument(
        "no floor of bandwidth can be kept here: the provider has no controller of links");
  }
  const FabricModel& model = *cluster_->fabric();
  double slowest = 0;
  for (size_t nic = 0; nic < model.NodeOf(self_).nics.size(); ++nic) {
    const double carries = model.BytesPerSecond(model.EdgeOut(self_, static_cast<int>(nic)));
    slowest = slowest == 0 ? carries : std::min(slowest, carries);
  }
  return FloorBook::kPromisable * slowest;
}

Status ControlLoop::FloorOf(const Communicator& communicator) const {
  const HostGroup* const group = communicator.host_group();
  if (group == nullptr || controller_link_ == nullptr) return Status::Ok();
  const FloorWord* const word = controller_link_->FloorOf(group->roster().key);
  if (word == nullptr || !word->refused) return Status::Ok();
  return Unavailable(
      "the floor of {:.3g} MB/s is refused: {} has room for one of {:.3g} MB/s", word->floor * 1e-6,
      word->tenant_bound ? "what the provider's policy promises to this tenant on a link"
                         : "a link that the job uses",
      word->room * 1e-6);
}

void ControlLoop::ReviewPlans(uint64_t now_ns) {
  for (const auto& [id, communicator] : services_.communicators->all()) {
    HostGroup* const group = communicator->host_group();
    if (group == nullptr || !group->is_home() ||
        group->roster().fabric != services_.fabrics->own()) {
      continue;
    }
    const bool follows = controller_link_ != nullptr && controller_link_->follows();
    const LogFor log_for(communicator->tenant().identity);
    const EdgeRates rates =
        follows ? controller_link_->RatesFor(group->roster().key) : links_->rates();
    group->plans().control()->OnRates(rates, *cluster_->fabric(), now_ns);
  }
  follower_.on_rates(links_->rates(), now_ns);
}

// ---------------------------------------------------------------------------------------------
// Turns of bursts

bool ControlLoop::MayBegin(Communicator& communicator) {
  if (controller_link_ == nullptr || !communicator.host_group()->roster().IsLocal(0)) return true;
  TurnGate* const gate = communicator.host_group()->gate();
  const double wait = controller_link_->LongestWait(communicator.host_group()->roster().key);
  TurnGate::Answer answer = gate->MayBegin(MonotonicNanoseconds(), wait);
  if (answer == TurnGate::Answer::kAsk) {
    TellBurst(communicator, false);
    answer = gate->waits() ? TurnGate::Answer::kWait : TurnGate::Answer::kGo;
  }
  if (answer == TurnGate::Answer::kWait) services_.tick_by(gate->wait_until_ns());
  return answer == TurnGate::Answer::kGo;
}

void ControlLoop::NoteEnd(Communicator& communicator) {
  if (communicator.host_group()->gate()->TakeEnded()) TellBurst(communicator, true);
}

void ControlLoop::TellBurst(Communicator& communicator, bool ended) {
  const BurstMessage burst{services_.fabrics->own(), communicator.tenant().identity.across_hosts,
                           communicator.host_group()->roster().key,
                           communicator.host_group()->gate()->burst(), ended};
  // Without a link to the controller there is no one to ask now.
  if (const auto controller = ControllersPeer()) Tell(*controller, burst);
}

void ControlLoop::OnBurst(transport::PeerId peer, const BurstMessage& burst) {
  if (controller_ == nullptr || burst.fabric != services_.fabrics->own()) return;
  Log(LogLevel::kTrace, kLogTuning, "bursts: #{} of communicator {:016x} {}", burst.burst,
      burst.communicator, burst.ended ? "has ended" : "asks for its turn");
  TellTurns(controller_->Take(peer, burst, Seconds(MonotonicNanoseconds())));
}

void ControlLoop::TellTurns(const std::vector<BurstTurns::Turn>& turns) {
  for (const BurstTurns::Turn& one : turns) {
    Tell(one.leader, BurstTurnMessage{services_.fabrics->own(), one.communicator, one.burst});
  }
}

void ControlLoop::OnTurn(transport::PeerId peer, const BurstTurnMessage& turn) {
  if (!IsController(peer, turn.fabric)) return;
  Communicator* const communicator = services_.communicators->FindByKey(turn.communicator);
  if (communicator == nullptr || !communicator->host_group()->gate()->Grant(turn.burst)) return;
  // Later, since this communicator or another may be in the middle of asking, or of ending an
  // operation.
  services_.loop->Post([this, key = turn.communicator] {
    if (Communicator* const ready = services_.communicators->FindByKey(key)) ready->OnPlanReady();
  });
}

// ---------------------------------------------------------------------------------------------
// Probes

std::optional<transport::PeerId> ControlLoop::PeerAt(int fabric_host) const {
  const auto found = std::find_if(host_of_peer_.begin(), host_of_peer_.end(),
                                  [&](const auto& one) { return one.second == fabric_host; });
  if (found != host_of_peer_.end()) return found->first;
  return controller_ == nullptr ? std::nullopt : controller_->PeerAt(fabric_host);
}

void ControlLoop::ProbeIfDue(uint64_t now_ns) {
  std::erase_if(asked_, [now_ns](const auto& one) {
    return now_ns - one.second.asked_ns > 2 * LinkProber::kGivenUpNs;
  });
  if (!asked_.empty()) return;  // one at a time
  const bool left_to_controller =
      controller_ == nullptr && controller_link_ != nullptr && controller_link_->follows();
  if (left_to_controller) return;
  const std::optional<FabricRail> due = links_->NextProbe(Seconds(now_ns));
  if (!due.has_value()) return;
  uint64_t number = 0;
  const Status drawn = FillRandom(std::as_writable_bytes(std::span(&number, 1)));
  if (!drawn.ok() || number == 0) return;
  asked_[number] = {*due, now_ns};
  const AskLinkProbeMessage question{services_.fabrics->own(), number, due->from, due->to,
                                     due->rail};
  if (due->from == self_) return OnAskLinkProbe(0, question);
  if (const auto sender = PeerAt(due->from)) cluster_->Send(*sender, question);
}

void ControlLoop::OnAskLinkProbe(transport::PeerId peer, const AskLinkProbeMessage& question) {
  const FabricModel& model = *cluster_->fabric();
  const std::optional<transport::PeerId> receiver = PeerAt(question.to);
  if (question.fabric != services_.fabrics->own() || question.from != self_ || !receiver) return;
  const FabricRails rails(model.fabric());
  const std::optional<Lane> lane = rails.LaneOf(self_, question.to, question.rail);
  if (!lane.has_value() || question.rail >= cluster_->RailsTo(*receiver)) return;
  const std::vector<transport::LinkTraffic> traffic =
      cluster_->transport().Traffic(std::span(&*receiver, 1));
  // A probe of a rail that is astray says nothing of the rail's own way.
  if (traffic.empty() || traffic[0].rails[question.rail].astray) return;
  double stated = 0;
  for (const int edge : model.CertainRouteOf(self_, question.to, *lane).edges) {
    stated =
        stated == 0 ? model.BytesPerSecond(edge) : std::min(stated, model.BytesPerSecond(edge));
  }
  prober_->Send(*receiver, question.rail, stated, question.probe, MonotonicNanoseconds(),
                [this, peer, probe = question.probe](double bytes_per_second) {
                  if (peer == kThisDaemon) return OnProbed(probe, bytes_per_second);
                  cluster_->Send(peer, LinkProbedMessage{probe, bytes_per_second});
                });
}

void ControlLoop::OnProbed(uint64_t probe, double bytes_per_second) {
  const auto found = asked_.find(probe);
  if (found == asked_.end()) return;
  const FabricRail rail = found->second.rail;
  asked_.erase(found);
  const uint64_t now_ns = MonotonicNanoseconds();
  const bool changed = links_->TakeProbe(rail, bytes_per_second, Seconds(now_ns));
  Log(LogLevel::kDebug, kLogTuning, "links: a probe from host {} to {} by rail {}: {:.0f} Mbit/s",
      rail.from, rail.to, rail.rail, bytes_per_second * 8e-6);
  if (!changed) return;
  LogLinks(now_ns);
  ReviewPlans(now_ns);
}

void ControlLoop::OnPeerLost(transport::PeerId peer) {
  host_of_peer_.erase(peer);
  if (controller_ != nullptr) TellTurns(controller_->Forget(peer, Seconds(MonotonicNanoseconds())));
  if (controller_link_ != nullptr) controller_link_->OnPeerLost(peer);
}

}  // namespace harmonaize::daemon
