#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cluster/address_seal.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/config/config.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/port_wait.h"
#include "src/base/status.h"
#include "src/executor/network/fabric_rails.h"
#include "src/planner/fabric_model.h"
#include "src/transport/cluster_key.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

/// Port at which daemons listen unless they are told otherwise.
inline constexpr uint16_t kDefaultClusterPort = 7400;

/// Returns the name of the host that has a NIC with this address; "" if there is none.
std::string HostAt(const FabricModel& model, const std::string& address);

/// Events of the cluster. Cluster::Progress calls them.
class ClusterEvents {
 public:
  virtual void OnMessage(transport::PeerId peer, const ClusterMessage& message) = 0;
  /// A daemon is gone for good. Messages that were sent to it may not have arrived.
  virtual void OnPeerLost(transport::PeerId peer) = 0;

 protected:
  ~ClusterEvents() = default;
};

/// The daemons of other hosts, as this one reaches them. Thread: engine.
class Cluster final : private transport::TransportEvents {
 public:
  /// Begins to listen, at one of `sockets` if that is not nullptr. Where another process has the
  /// port, it tries again from time to time. Errors name the key of the configuration that is
  /// wrong. `loop` is that of the thread. Requires: `events` and `loop` outlive the cluster.
  static Result<std::unique_ptr<Cluster>> Create(
      const ClusterConfig& config, ClusterEvents* events, EventLoop* loop,
      std::shared_ptr<transport::ListeningSockets> sockets = nullptr);

  /// Returns whether other daemons can reach this one.
  bool listens() const { return !port_.waits(); }
  /// The address at which other daemons reach this one.
  const std::string& address() const { return address_; }
  /// This host's name in the fabric file; "" without one.
  const std::string& host_name() const { return host_name_; }
  /// This host in the fabric; -1 without a file.
  int fabric_host() const;
  /// Returns where the daemon of a host of the fabric listens: at the host's first NIC, at the port
  /// at which this daemon listens. Errors: kInvalidArgument for a host whose first NIC has no
  /// address that can be parsed, or which has none.
  Result<transport::NetworkAddress> AddressOf(int fabric_host) const;
  /// Returns the rate, in bytes per second, at which the NICs of this host can send together by the
  /// fabric file; 0 without a file.
  uint64_t host_bytes_per_second() const;
  /// The address of the cluster's controller, which may be this daemon; "": there is none.
  const std::string& controller() const { return controller_; }
  /// The provider's fabric; nullptr without a file.
  const std::shared_ptr<const FabricModel>& fabric() const { return fabric_; }

  /// Returns a secret that all daemons of the cluster come to by this label, and nobody else.
  transport::Proof SecretFor(std::string_view label) const { return key_.Sign(label, {}); }
  /// The address at which this daemon listens.
  const transport::NetworkAddress& listening() const { return listening_; }

  /// Puts this daemon's address into the id.
  Status Seal(UniqueId* id) const { return seal_.Seal(listening_, id); }
  /// Returns the address of the daemon that an id leads to; nullopt: this one. A named id leads to
  /// the daemon at the name's address, at the port that this one listens at.
  Result<std::optional<transport::NetworkAddress>> HomeOf(const UniqueId& id) const;

  /// Called with the link to a daemon, or an error for tenants, which names no address:
  /// kInvalidUsage for a daemon of a release too far from this one's, else kRemoteError.
  using ReachDone = std::function<void(const Result<transport::PeerId>&)>;
  /// Finds or makes the link to a daemon, and calls `done`.
  void Reach(const std::string& address, ReachDone done);
  /// Sends a message. To a daemon that is lost nothing is sent: OnPeerLost was or will be called.
  /// To kThisDaemon the message comes later, as from others, and never from within this call.
  void Send(transport::PeerId peer, const ClusterMessage& message);
  /// Sends a message that a tenant causes, in the same way. Errors: kRemoteError if as much of this
  /// tenant's waits for the daemon as may; kInternalError for a message that is too long;
  /// kInvalidUsage for a message that the daemon does not know (CheckKnown). Nothing is sent then.
  [[nodiscard]] Status SendFor(const TenantIdentity& tenant, transport::PeerId peer,
                               const ClusterMessage& message);
  /// Answers a message about what is not here, so that its tenant is not known: a communicator by
  /// its key, or another host's user. Not sent if as much about it waits for the daemon as may.
  void Answer(transport::PeerId peer, uint64_t about, const ClusterMessage& message);
  /// Cancels the messages of many operations with a peer, some now and the others soon: those
  /// whose number `number` returns for [first, end).
  void CancelMany(transport::PeerId peer, uint64_t first, uint64_t end,
                  std::function<uint64_t(uint64_t)> number);
  transport::Transport& transport() { return *transport_; }
  const transport::Transport& transport() const { return *transport_; }
  transport::TransportCounters counters() const { return transport_->counters(); }
  /// Number of rails that lead to a peer.
  size_t RailsTo(transport::PeerId peer) const;
  size_t peers() const { return peers_.size(); }
  /// Returns whether the link to a peer is up. A link that is down never comes up again.
  bool Linked(transport::PeerId peer) const { return peers_.contains(peer); }
  /// The versions of the protocol between daemons that this one speaks.
  const VersionRange& versions() const { return versions_; }
  /// Checks that a daemon knows messages of this kind; of one that is not linked nothing is known.
  /// Errors: kInvalidUsage, for tenants, if its release is too old.
  Status CheckKnown(transport::PeerId peer, MessageKind kind) const;
  /// Daemons that could not be reached because they speak no version of the protocol that this one
  /// does: the reason by address.
  const std::map<std::string, std::string>& of_other_releases() const { return of_other_releases_; }
  const std::map<transport::PeerId, transport::PeerInfo>& linked() const { return peers_; }

  /// Does what can be done now. Returns false if there was nothing to do. `busy` tells whether data
  /// is on its way, so that a look is worth a system call.
  bool Progress(bool busy);
  /// Prepares a sleep on fd(). Returns whether there is nothing to do.
  bool Arm();
  int fd() const { return transport_->fd(); }
  /// Notes that fd() is readable.
  void OnReadable() { readable_ = true; }

 private:
  /// A daemon that is being reached.
  struct Reaching {
    std::optional<TenantIdentity> for_tenant;  ///< The tenant that began it; none: the daemon.
    std::vector<ReachDone> waiting;            ///< Calls that wait for the link.
  };

  Cluster(ClusterEvents* events, EventLoop* loop, const transport::ClusterKey& key)
      : events_(events), loop_(loop), key_(key), seal_(key), port_(loop) {}

  Status SendAs(transport::ControlSender sender, transport::PeerId peer,
                const ClusterMessage& message);
  void OnReached(const std::string& address, const Result<transport::PeerId>& peer);
  Status FindController(const ClusterConfig& config);
  Status ListenAt(const transport::NetworkAddress& address);
  Status TryToListen(bool again);
  Status ReadFabric(const ClusterConfig& config, const transport::NetworkAddress& address);
  void OnPeerUp(transport::PeerId peer, const transport::PeerInfo& info) override;
  void OnPeerLost(transport::PeerId peer, const std::string& reason) override;
  void OnControl(transport::PeerId peer, std::span<const std::byte> message) override;

  ClusterEvents* const events_;
  EventLoop* const loop_;
  const transport::ClusterKey key_;
  const AddressSeal seal_;
  std::shared_ptr<const FabricModel> fabric_;
  std::string host_name_;
  std::unique_ptr<transport::Transport> transport_;
  VersionRange versions_;
  transport::NetworkAddress listening_;
  std::string address_;
  PortWait port_;
  std::string controller_;
  std::map<transport::PeerId, transport::PeerInfo> peers_;
  std::map<std::string, Reaching> reaching_;  // by address
  std::map<std::string, std::string> of_other_releases_;
  std::set<transport::PeerId> not_understood_;  ///< Peers that have sent an unknown kind.
  bool readable_ = true;
  int quiet_rounds_ = 0;
};

}  // namespace harmonaize::daemon
