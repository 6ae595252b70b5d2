#include "daemon/sharing/controller_link.h"

#include <algorithm>

#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, for which the controller's word holds; it repeats itself more often.
constexpr uint64_t kHoldsNs = 1'500'000'000;
/// First pause, in nanoseconds, before a controller that cannot be reached is tried again; the
/// pause doubles.
constexpr uint64_t kFirstPauseNs = 1'000'000'000;
/// Longest such pause, in nanoseconds.
constexpr uint64_t kLongestPauseNs = 30'000'000'000;

}  // namespace

void ControllerLink::Tell(const TrafficMessage& traffic, uint64_t now_ns) {
  // After a pause in telling, the controller has its time to answer.
  if (follows() && now_ns > told_ns_ + kHoldsNs / 2) heard_ns_ = now_ns;
  told_ns_ = now_ns;
  if (peer_.has_value()) return cluster_->Send(*peer_, traffic);
  Reach(now_ns);
}

void ControllerLink::Reach(uint64_t now_ns) {
  if (reaching_ || now_ns < next_try_ns_) return;
  reaching_ = true;
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  next_try_ns_ = now_ns + pause_ns_;
  cluster_->Reach(
      address_, [this, alive = std::weak_ptr<void>(alive_)](const Result<transport::PeerId>& peer) {
        if (alive.expired()) return;
        reaching_ = false;
        if (!peer.ok()) return;  // which the cluster has logged
        peer_ = *peer;
        pause_ns_ = 0;
      });
}

void ControllerLink::Take(const SharesMessage& shares, const PeerAt& peer_at, uint64_t now_ns) {
  if (!follows()) {
    Log(LogLevel::kInfo, kLogTuning, "the controller at {} has shares for this daemon", address_);
  }
  heard_ns_ = now_ns;
  links_ = shares.links;
  jobs_.clear();
  for (const JobRates& job : shares.jobs) jobs_[job.communicator] = job.rates;
  waits_.clear();
  for (const JobWait& wait : shares.waits) waits_[wait.communicator] = wait.seconds;
  floors_.clear();
  for (const FloorWord& floor : shares.floors) floors_[floor.communicator] = floor;
  std::map<Rail, transport::RailLimits> limits;
  for (const RailShare& share : shares.limits) {
    const std::optional<transport::PeerId> peer = peer_at(share.peer);
    if (!peer.has_value() || share.rail >= cluster_->RailsTo(*peer)) continue;
    Log(LogLevel::kTrace, kLogTuning, "links: user {} may send {:.0f} Mbit/s to host {} by rail {}",
        share.user, share.bytes_per_second * 8e-6, share.peer, share.rail);
    limits[{*peer, share.rail}].push_back({share.user, share.owner, share.bytes_per_second});
  }
  for (const Rail& rail : limited_) limits.try_emplace(rail);
  limited_.clear();
  for (const auto& [rail, tenants] : limits) {
    Limit(rail, tenants);
    if (!tenants.empty()) limited_.insert(rail);
  }
}

void ControllerLink::Limit(const Rail& rail, const transport::RailLimits& limits) {
  // A rail to a lost peer has no limit any more.
  const Status limited = cluster_->transport().Limit(rail.first, rail.second, limits);
  if (!limited.ok()) Log(LogLevel::kDebug, kLogTuning, "no limit: {}", limited.message());
}

void ControllerLink::Tick(uint64_t now_ns) {
  if (follows() && now_ns > heard_ns_ + kHoldsNs) Lapse();
}

void ControllerLink::Lapse() {
  Log(LogLevel::kWarning, kLogTuning,
      "the controller at {} is silent: this daemon shares links as it sees fit", address_);
  heard_ns_ = 0;
  links_.clear();
  jobs_.clear();
  waits_.clear();
  floors_.clear();
  for (const Rail& rail : limited_) Limit(rail, {});
  limited_.clear();
}

void ControllerLink::OnPeerLost(transport::PeerId peer) {
  if (peer == peer_) peer_.reset();
  std::erase_if(limited_, [peer](const Rail& rail) { return rail.first == peer; });
}

double ControllerLink::LongestWait(uint64_t communicator) const {
  const auto found = waits_.find(communicator);
  return found == waits_.end() ? 0 : found->second;
}

const FloorWord* ControllerLink::FloorOf(uint64_t communicator) const {
  const auto found = floors_.find(communicator);
  return found == floors_.end() ? nullptr : &found->second;
}

EdgeRates ControllerLink::RatesFor(uint64_t communicator) const {
  const auto found = jobs_.find(communicator);
  if (found == jobs_.end()) return links_;
  EdgeRates rates;
  auto link = links_.begin();
  for (const EdgeRate& left : found->second) {
    for (; link != links_.end() && link->edge < left.edge; ++link) rates.push_back(*link);
    const bool slow = link != links_.end() && link->edge == left.edge;
    rates.push_back({left.edge, slow ? std::min(link->bytes_per_second, left.bytes_per_second)
                                     : left.bytes_per_second});
    if (slow) ++link;
  }
  rates.insert(rates.end(), link, links_.end());
  return rates;
}

}  // namespace harmonaize::daemon
