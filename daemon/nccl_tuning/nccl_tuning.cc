#include "daemon/nccl_tuning/nccl_tuning.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "daemon/cluster/this_daemon.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

/// Time between two looks at how far ranks are: while they call, and while they do not.
constexpr milliseconds kBusyPace{100};
constexpr milliseconds kQuietPace{500};
/// Time, in nanoseconds, for which a communicator whose ranks have called counts as active.
constexpr uint64_t kActiveNs = 1'000'000'000;
/// Time, in nanoseconds, after which a home that was not reached is tried again.
constexpr uint64_t kTryAgainNs = 2'000'000'000;
/// Most ranks of a communicator, as messages between daemons have it.
constexpr int kMostRanks = 1 << 20;

TunedKey KeyOf(const auto& message) {
  return {message.user, message.communicator};
}

}  // namespace

NcclTuning::NcclTuning(const Services& services) : services_(services), timer_(services.loop) {
  Cluster* const cluster = services_.cluster;
  if (cluster == nullptr || cluster->fabric() == nullptr || !services_.config->plans.live) return;
  self_ = cluster->fabric()->HostNamed(cluster->host_name());
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
  const std::vector<Nic>& nics = cluster.fabric()->NodeOf(host).nics;
  if (nics.empty()) return std::nullopt;
  const auto address =
      transport::NetworkAddress::Parse(nics.front().address, cluster.listening().port());
  if (!address.ok()) return std::nullopt;
  return address->ToString();
}

// ---------------------------------------------------------------------------------------------
// Ranks here

Result<NcclTuning::Opened> NcclTuning::Open(Session& session, uint64_t communicator, int ranks,
                                            int hosts, std::shared_ptr<RegionMemory> position) {
  if (ranks < 1 || ranks > kMostRanks || hosts < 1 || hosts > ranks) {
    return InvalidArgument("a communicator of {} ranks on {} hosts", ranks, hosts);
  }
  // On one host there are no links whose state matters.
  if (!works() || hosts < 2) return Opened{};
  const TunedKey key{session.tenant().identity.across_hosts, communicator};
  HZ_ASSIGN_OR_RETURN(Known* const known, FindOrMake(session, key, ranks));
  if (known == nullptr) return Opened{};
  const uint32_t number = next_number_++;
  numbers_[number] = key;
  known->communicator->Add(number, session.id(), std::move(position));
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
  const auto found = numbers_.find(number);
  if (found == numbers_.end() ||
      !known_.at(found->second).communicator->Remove(session.id(), number)) {
    return InvalidArgument("this session has no tuned communicator of number {}", number);
  }
  const TunedKey key = found->second;
  numbers_.erase(found);
  Remove(key);
  return Status::Ok();
}

void NcclTuning::LoseSession(uint32_t session) {
  std::vector<TunedKey> keys;
  for (auto& [key, known] : known_) {
    if (known.communicator->RemoveAll(session)) keys.push_back(key);
  }
  for (const TunedKey& key : keys) Remove(key);
  std::erase_if(numbers_, [this](const auto& one) {
    const auto found = known_.find(one.second);
    return found == known_.end() || !found->second.communicator->Has(one.first);
  });
}

// Tells the home that ranks have gone, and forgets a communicator without ranks.
void NcclTuning::Remove(const TunedKey& key) {
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
          .communicator = communicator.key().communicator,
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
  const std::chrono::nanoseconds pace = ActiveHomes().empty() ? kQuietPace : kBusyPace;
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
  if (!ActiveHomes().empty()) services_.look_at_traffic(now_ns);
  KeepTime();
}

std::vector<transport::PeerId> NcclTuning::ActiveHomes() const {
  const uint64_t now_ns = MonotonicNanoseconds();
  std::vector<transport::PeerId> homes;
  for (const auto& [key, known] : known_) {
    const bool active = known.peer.has_value() && now_ns < known.active_until_ns;
    if (active && std::find(homes.begin(), homes.end(), *known.peer) == homes.end()) {
      homes.push_back(*known.peer);
    }
  }
  return homes;
}

void NcclTuning::OnRates(const EdgeRates& rates, uint64_t now_ns) {
  if (works()) home_->OnRates(rates, now_ns);
}

// ---------------------------------------------------------------------------------------------
// What the cluster says

void NcclTuning::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (!works()) return;
  const auto* const tuning = std::get_if<TuningMessage>(&message.subjects());
  if (tuning != nullptr) OnTuning(peer, *tuning);
}

void NcclTuning::OnTuning(transport::PeerId peer, const TuningMessage& message) {
  if (const auto* ranks = std::get_if<TunedRanksMessage>(&message)) {
    if (ranks->fabric == services_.fabrics->own()) home_->OnRanks(peer, *ranks);
    return KeepTime();
  }
  if (const auto* promise = std::get_if<TuningPromiseMessage>(&message)) {
    return home_->OnPromise(peer, *promise);
  }
  if (const auto* proposal = std::get_if<TuningProposalMessage>(&message)) {
    Known* const known = FindFrom(peer, KeyOf(*proposal));
    if (known == nullptr) return;
    services_.cluster->Send(peer, known->communicator->Promise(*proposal));
  }
  if (const auto* settlement = std::get_if<TuningSettleMessage>(&message)) {
    Known* const known = FindFrom(peer, KeyOf(*settlement));
    if (known != nullptr && known->communicator->Settle(*settlement)) ++changes_;
  }
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
