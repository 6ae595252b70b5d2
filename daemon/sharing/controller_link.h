#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/link.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// A daemon's way to the controller of its cluster: tells it of traffic, and does what it says,
/// for as long as it says anything. Without it, or when it is silent, daemons go their own ways.
///
/// For the engine's thread. Time is passed in.
class ControllerLink {
 public:
  /// `address` is the controller's. Borrows the cluster, which must outlive this.
  ControllerLink(Cluster* cluster, std::string address)
      : cluster_(cluster), address_(std::move(address)) {}

  const std::string& address() const { return address_; }
  /// None while it is not linked, and where it is this daemon.
  std::optional<transport::PeerId> peer() const { return peer_; }

  /// Finds the controller first, where it is not linked; what cannot be told is left out.
  void Tell(const TrafficMessage& traffic, uint64_t now_ns);
  /// What the controller says. `peer_at` knows the daemons of the fabric's hosts.
  using PeerAt = std::function<std::optional<transport::PeerId>(int fabric_host)>;
  void Take(const SharesMessage& shares, const PeerAt& peer_at, uint64_t now_ns);
  /// Often, while anything is sent: what a silent controller has said lapses.
  void Tick(uint64_t now_ns);
  void OnPeerLost(transport::PeerId peer);

  /// Whether the controller has said something lately.
  bool follows() const { return heard_ns_ != 0; }
  /// What edges have for a communicator, where not what the fabric states; by edge.
  EdgeRates RatesFor(uint64_t communicator) const;
  /// For so long at most a burst of this communicator, whose rank 0 is here, is to wait for its
  /// turn; 0: it need not ask for one.
  double LongestWait(uint64_t communicator) const;
  /// Rails that are held back here now.
  size_t limits() const { return limited_.size(); }

 private:
  using Rail = std::pair<transport::PeerId, size_t>;
  void Reach(uint64_t now_ns);
  void Lapse();
  void Limit(const Rail& rail, const transport::RailLimits& limits);

  Cluster* const cluster_;
  const std::string address_;
  std::optional<transport::PeerId> peer_;
  bool reaching_ = false;
  uint64_t next_try_ns_ = 0;
  uint64_t pause_ns_ = 0;
  uint64_t told_ns_ = 0;
  uint64_t heard_ns_ = 0;
  EdgeRates links_;
  std::map<uint64_t, EdgeRates> jobs_;
  std::map<uint64_t, double> waits_;
  std::set<Rail> limited_;
  std::shared_ptr<void> alive_ = std::make_shared<int>();
};

}  // namespace harmonaize::daemon
