#include "daemon/nccl_tuning/nccl_tuning.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/this_daemon.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

/// Time between two looks at how far ranks are: while they call, and while they do not.
constexpr milliseconds kBusyPace{100};
constexpr milliseconds kQuietPace{500};
/// A communicator counts as active for this time, in nanoseconds, after a call of its ranks.
constexpr uint64_t kActiveNs = 1'000'000'000;
/// Time, in nanoseconds, after which a home that was not reached is tried again.
constexpr uint64_t kTryAgainNs = 2'000'000'000;

TunedKey KeyOf(const auto& message) {
  return {message.user, message.nccl_communicator};
}

}  // namespace

NcclTuning::NcclTuning(const Services& services) : services_(services), timer_(services.loop) {
  Cluster* const cluster = services_.cluster;
  if (cluster == nullptr || cluster->fabric() == nullptr || !services_.config->plans.live) return;
  self_ = cluster->fabric_host();
  const KnownFabric* const own = services_.fabrics->Find(services_.fabrics->own());
  if (self_ < 0 || own == nullptr) return;
  home_.emplace(TuningHome::Services{
      .models = own->rated,
      .stated = own->model,
      .costs = services_.config->costs.ToNetworkCosts(),
      .least_gain = services_.config->plans.least_gain,
      .background = services_.background,
      .post = [loop = services_.loop](std::function<void()> call) { loop->Post(std::move(call)); },
      .send = [cluster](transport::PeerId peer,
                        const ClusterMessage& message) { cluster->Send(peer, message); }});
}

std::optional<std::string> NcclTuning::HomeOf(uint64_t communicator) const {
  const Cluster& cluster = *services_.cluster;
  if (!cluster.controller().empty()) {
    return cluster.controller() == cluster.address() ? "" : cluster.controller();
  }
  const auto hosts = static_cast<uint64_t>(cluster.fabric()->hosts());
  const auto host = static_cast<int>(communicator % hosts);
  if (host == self_) return "";
  const Result<transport::NetworkAddress> address = cluster.AddressOf(host);
  if (!address.ok()) return std::nullopt;
  return address->ToString();
}

// ---------------------------------------------------------------------------------------------
// Ranks here

Result<NcclTuning::Opened> NcclTuning::Open(Session& session, uint64_t communicator, int ranks,
                                            int hosts, std::shared_ptr<RegionMemory> position) {
  if (ranks < 1 || ranks > kMostTunedRanks || hosts < 1 || hosts > ranks) {
    return InvalidArgument("a communicator of {} ranks on {} hosts", ranks, hosts);
  }
  // On one host there are no links whose state matters.
  if (!works() || hosts < 2) return Opened{};
  const TunedKey key{session.tenant().identity.across_hosts, communicator};
  HZ_ASSIGN_OR_RETURN(Known* const known, FindOrMake(session, key, ranks));
  if (known == nullptr) return Opened{};
  const uint32_t number = next_number_++;
  ranks_[number] = {session.id(), key};
  known->communicator->Add(number, std::move(position));
  known->told = false;
  TellHome(key, known);
  KeepTime();
  return Opened{number, known->communicator->descriptor()};
}

// Returns nullptr for a communicator whose home cannot be found.
Result<NcclTuning::Known*> NcclTuning::FindOrMake(Session& session, const TunedKey& key,
                                                  int ranks) {
  const auto found = known_.find(key);
  if (found != known_.end()) {
    const TunedCommunicator& communicator = *found->second.communicator;
    if (&communicator.tenant() != &session.tenant()) {
      return InvalidUsage("this communicator is another tenant's");
    }
    if (communicator.ranks() != ranks || communicator.here() >= ranks) {
      return InvalidUsage("this communicator has {} ranks, of which {} are here",
                          communicator.ranks(), communicator.here());
    }
    return &found->second;
  }
  const std::optional<std::string> home = HomeOf(key.communicator);
  if (!home.has_value()) return nullptr;
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<TunedCommunicator> communicator,
                      TunedCommunicator::Create(key, &session.tenant(), ranks));
  Known& known = known_[key];
  known.communicator = std::move(communicator);
  known.home = *home;
  return &known;
}

Status NcclTuning::Close(const Session& session, uint32_t number) {
  const auto found = ranks_.find(number);
  if (found == ranks_.end() || found->second.session != session.id()) {
    return InvalidArgument("this session has no tuned communicator of number {}", number);
  }
  const TunedKey key = found->second.key;
  ranks_.erase(found);
  known_.at(key).communicator->Remove(number);
  OnRanksLeft(key);
  return Status::Ok();
}

void NcclTuning::LoseSession(uint32_t session) {
  std::set<TunedKey> keys;
  std::erase_if(ranks_, [&](const auto& one) {
    const auto& [number, rank] = one;
    if (rank.session != session) return false;
    known_.at(rank.key).communicator->Remove(number);
    keys.insert(rank.key);
    return true;
  });
  for (const TunedKey& key : keys) OnRanksLeft(key);
}

// Tells the home that ranks have gone, and forgets a communicator without ranks.
void NcclTuning::OnRanksLeft(const TunedKey& key) {
  Known& known = known_.at(key);
  known.told = false;
  TellHome(key, &known);
  if (known.communicator->here() == 0) known_.erase(key);
  KeepTime();
}

// ---------------------------------------------------------------------------------------------
// The home's address

TunedRanksMessage NcclTuning::RanksOf(const Known& known) const {
  const TunedCommunicator& communicator = *known.communicator;
  return {.user = communicator.key().user,
          .nccl_communicator = communicator.key().communicator,
          .fabric = services_.fabrics->own(),
          .host = self_,
          .ranks = communicator.ranks(),
          .here = communicator.here(),
          .changes = communicator.changes()};
}

void NcclTuning::TellHome(const TunedKey& key, Known* known) {
  if (known->home.empty()) known->peer = kThisDaemon;
  if (!known->peer.has_value()) return Reach(key, known);
  known->told = services_.cluster
                    ->SendFor(known->communicator->tenant().identity, *known->peer, RanksOf(*known))
                    .ok();
}

void NcclTuning::Reach(const TunedKey& key, Known* known) {
  const uint64_t now_ns = MonotonicNanoseconds();
  if (now_ns < known->next_try_ns || known->communicator->here() == 0) return;
  known->next_try_ns = now_ns + kTryAgainNs;
  services_.cluster->Reach(known->home,
                           lifetime_.Guard([this, key](const Result<transport::PeerId>& peer) {
                             const auto found = known_.find(key);
                             if (found == known_.end() || !peer.ok()) return;
                             found->second.peer = *peer;
                             TellHome(key, &found->second);
                           }));
}

// ---------------------------------------------------------------------------------------------
// Time

// Looks at how far ranks are while there are any.
void NcclTuning::KeepTime() {
  if (known_.empty() && (!works() || home_->empty())) {
    timer_.Stop();
    pace_ = {};
    return;
  }
  const std::chrono::nanoseconds pace = AnyActive(MonotonicNanoseconds()) ? kBusyPace : kQuietPace;
  if (pace == pace_) return;
  timer_.Stop();
  pace_ = pace;
  const Status started = timer_.Start(pace, [this] { Tick(); });
  if (!started.ok()) {
    pace_ = {};
    Log(LogLevel::kWarning, kLogTuning, "NCCL's tuners are not looked after: {}",
        started.message());
  }
}

void NcclTuning::Tick() {
  const uint64_t now_ns = MonotonicNanoseconds();
  for (auto& [key, known] : known_) {
    if (known.communicator->WentOn(now_ns)) known.active_until_ns = now_ns + kActiveNs;
    if (!known.told) TellHome(key, &known);
  }
  home_->Tick(now_ns);
  if (AnyActive(now_ns)) services_.look_at_traffic(now_ns);
  KeepTime();
}

bool NcclTuning::IsActive(const Known& known, uint64_t now_ns) {
  return known.peer.has_value() && now_ns < known.active_until_ns;
}

bool NcclTuning::AnyActive(uint64_t now_ns) const {
  return std::any_of(known_.begin(), known_.end(),
                     [now_ns](const auto& one) { return IsActive(one.second, now_ns); });
}

std::set<transport::PeerId> NcclTuning::ActiveHomes() const {
  const uint64_t now_ns = MonotonicNanoseconds();
  std::set<transport::PeerId> homes;
  for (const auto& [key, known] : known_) {
    if (IsActive(known, now_ns)) homes.insert(*known.peer);
  }
  return homes;
}

void NcclTuning::OnRates(const EdgeRates& rates, uint64_t now_ns) {
  if (works()) home_->OnRates(rates, now_ns);
}

// ---------------------------------------------------------------------------------------------
// Messages of other daemons

void NcclTuning::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (!works()) return;
  message.Dispatch(
      [&](const TunedRanksMessage& ranks) {
        if (ranks.fabric == services_.fabrics->own()) home_->OnRanks(peer, ranks);
        KeepTime();
      },
      [&](const TuningPromiseMessage& promise) { home_->OnPromise(peer, promise); },
      [&](const TuningProposalMessage& proposal) {
        Known* const known = FindFrom(peer, KeyOf(proposal));
        if (known == nullptr) return;
        services_.cluster->Send(peer, known->communicator->Promise(proposal));
      },
      [&](const TuningSettleMessage& settlement) {
        Known* const known = FindFrom(peer, KeyOf(settlement));
        if (known != nullptr && known->communicator->Settle(settlement)) ++changes_;
      });
}

// Returns the communicator if the peer is its home.
NcclTuning::Known* NcclTuning::FindFrom(transport::PeerId peer, const TunedKey& key) {
  const auto found = known_.find(key);
  return found == known_.end() || found->second.peer != peer ? nullptr : &found->second;
}

void NcclTuning::OnPeerLost(transport::PeerId peer) {
  if (!works()) return;
  home_->OnPeerLost(peer);
  for (auto& [key, known] : known_) {
    if (known.peer != peer) continue;
    known.peer.reset();
    known.told = false;
    known.communicator->CallOff();
  }
}

// ---------------------------------------------------------------------------------------------
// Reports

std::vector<TunedReport> NcclTuning::Report() const {
  return works() ? home_->Report() : std::vector<TunedReport>();
}

std::vector<NcclTuning::Here> NcclTuning::ReportHere() const {
  std::vector<Here> here;
  for (const auto& [key, known] : known_) {
    const TunedCommunicator& communicator = *known.communicator;
    here.push_back({.tenant = communicator.tenant().identity.number,
                    .key = key,
                    .ranks = communicator.ranks(),
                    .here = communicator.here(),
                    .changes = communicator.changes(),
                    .has_home = known.told});
  }
  return here;
}

}  // namespace harmonaize::daemon
