#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/cluster/address_seal.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/config/config.h"
#include "daemon/runtime/event_loop.h"
#include "src/base/status.h"
#include "src/executor/network/fabric_rails.h"
#include "src/planner/fabric_model.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

/// At which daemons listen unless they are told otherwise.
inline constexpr uint16_t kDefaultClusterPort = 7400;

/// The name of the host that has a NIC with this address; "" if there is none.
std::string HostAt(const FabricModel& model, const std::string& address);

/// What happens in the cluster. Called from Cluster::Progress.
class ClusterEvents {
 public:
  virtual void OnMessage(transport::PeerId peer, const ClusterMessage& message) = 0;
  /// Gone for good. What was sent to it may not have arrived.
  virtual void OnPeerLost(transport::PeerId peer) = 0;

 protected:
  ~ClusterEvents() = default;
};

/// The daemons of other hosts, as this one reaches them. For the engine's thread.
class Cluster final : private transport::TransportEvents {
 public:
  /// Listens. Errors name the key of the configuration that is wrong.
  /// `loop` is that of the thread; both pointers must outlive the cluster.
  static Result<std::unique_ptr<Cluster>> Create(const ClusterConfig& config, ClusterEvents* events,
                                                 EventLoop* loop);

  /// Where others reach this daemon.
  const std::string& address() const { return address_; }
  /// This host's name in the fabric file; "" without one.
  const std::string& host_name() const { return host_name_; }
  /// Where the controller of the cluster is reached, this daemon perhaps; "": there is none.
  const std::string& controller() const { return controller_; }
  /// The provider's fabric; nullptr without a file.
  const std::shared_ptr<const FabricModel>& fabric() const { return fabric_; }

  /// Makes the id lead here.
  Status Seal(UniqueId* id) const { return seal_.Seal(listening_, id); }
  /// Where an id leads; none: here. A named one leads to the daemon at the name's address, at the
  /// port that this one listens at.
  Result<std::optional<transport::NetworkAddress>> HomeOf(const UniqueId& id) const;

  /// Finds or makes the link to a daemon. The error is for tenants: it has no address.
  using ReachDone = std::function<void(const Result<transport::PeerId>&)>;
  void Reach(const std::string& address, ReachDone done);
  /// To one that is lost: nothing is sent, and OnPeerLost was or will be called. To kThisDaemon: it
  /// comes later, as from others, and never from within this call.
  void Send(transport::PeerId peer, const ClusterMessage& message);
  transport::Transport& transport() { return *transport_; }
  const transport::Transport& transport() const { return *transport_; }
  transport::TransportCounters counters() const { return transport_->counters(); }
  /// How many rails lead to a peer.
  size_t RailsTo(transport::PeerId peer) const;
  size_t peers() const { return peers_.size(); }
  /// Whether the link to a peer is up. Once it is not it never is again.
  bool Linked(transport::PeerId peer) const { return peers_.contains(peer); }
  const std::map<transport::PeerId, transport::PeerInfo>& linked() const { return peers_; }

  /// Does what can be done now; false when there was nothing. `busy`: whether data is on its way,
  /// so that looking is worth a system call.
  bool Progress(bool busy);
  /// Before a sleep on fd(): whether nothing is to be done.
  bool Arm();
  int fd() const { return transport_->fd(); }
  /// fd() is readable.
  void OnReadable() { readable_ = true; }

 private:
  Cluster(ClusterEvents* events, EventLoop* loop, const transport::ClusterKey& key)
      : events_(events), loop_(loop), seal_(key) {}

  Status FindController(const ClusterConfig& config);
  Status ReadFabric(const ClusterConfig& config, const transport::NetworkAddress& address);
  void OnPeerUp(transport::PeerId peer, const transport::PeerInfo& info) override;
  void OnPeerLost(transport::PeerId peer, const std::string& reason) override;
  void OnControl(transport::PeerId peer, std::span<const std::byte> message) override;

  ClusterEvents* const events_;
  EventLoop* const loop_;
  const AddressSeal seal_;
  std::shared_ptr<const FabricModel> fabric_;
  std::string host_name_;
  std::unique_ptr<transport::Transport> transport_;
  transport::NetworkAddress listening_;
  std::string address_;
  std::string controller_;
  std::map<transport::PeerId, transport::PeerInfo> peers_;
  bool readable_ = true;
  int quiet_rounds_ = 0;
};

}  // namespace harmonaize::daemon
