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

/// A daemon's link to the controller of its cluster: tells the controller of traffic, and follows
/// its word for as long as the controller is heard. Without a controller, or if it is silent,
/// daemons go their own ways.
///
/// Thread: engine. Time is passed in.
class ControllerLink {
 public:
  /// `address` is the controller's. Requires: the cluster outlives this object.
  ControllerLink(Cluster* cluster, std::string address)
      : cluster_(cluster), address_(std::move(address)) {}

  const std::string& address() const { return address_; }
  /// The controller's peer; nullopt while it is not linked, and if it is this daemon.
  std::optional<transport::PeerId> peer() const { return peer_; }

  /// Tells the controller of traffic. While it is not linked, tries to link with it instead.
  void Tell(const TrafficMessage& traffic, uint64_t now_ns);
  /// Returns the daemon of a host of the fabric; nullopt if it is not known.
  using PeerAt = std::function<std::optional<transport::PeerId>(int fabric_host)>;
  /// Takes in the controller's word.
  void Take(const SharesMessage& shares, const PeerAt& peer_at, uint64_t now_ns);
  /// Drops the word of a controller that is silent. To be called often while anything is sent.
  void Tick(uint64_t now_ns);
  void OnPeerLost(transport::PeerId peer);

  /// Returns whether the controller has said something lately.
  bool follows() const { return heard_ns_ != 0; }
  /// Returns what edges have for a communicator, by edge, where that is not what the fabric states.
  EdgeRates RatesFor(uint64_t communicator) const;
  /// Returns the longest time, in seconds, that a burst of this communicator, whose rank 0 is here,
  /// is to wait for its turn; 0: it need not ask for one.
  double LongestWait(uint64_t communicator) const;
  /// Returns what the controller says of the floor of a communicator's job; nullptr: nothing yet.
  const FloorWord* FloorOf(uint64_t communicator) const;
  /// Number of rails that are held back here now.
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
  std::map<uint64_t, FloorWord> floors_;
  std::set<Rail> limited_;
  std::shared_ptr<void> alive_ = std::make_shared<int>();
};

}  // namespace harmonaize::daemon
