#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/transport/address.h"
#include "src/transport/cluster_key.h"
#include "src/transport/link/handshake.h"
#include "src/transport/link/rail.h"
#include "src/transport/link/rail_limit.h"
#include "src/transport/link/rail_traffic.h"
#include "src/transport/message.h"
#include "src/transport/tcp/congestion_control.h"

namespace harmonaize::transport {

class ListeningSockets;

struct TransportOptions {
  /// The key that all daemons of the cluster share.
  ClusterKey key;
  /// Trusts everybody who can reach the port, other users of this host included, if there is no
  /// key: for laboratories. Loopback is no exception.
  bool allow_unauthenticated = false;
  /// Silence after which a peer is taken for dead; a quarter more while streams may be moved and
  /// ways carry nothing. Checked sixteen times in this period. At least 100 ms.
  uint64_t dead_after_ns = 2'000'000'000;
  /// Time for all of Connect: connection, proof, agreement, rails. It takes seconds on a way so
  /// crowded that every second packet is lost.
  uint64_t connect_timeout_ns = 10'000'000'000;
  uint64_t proof_timeout_ns = 2'000'000'000;
  /// Most accepted connections that have not proved the key: in all, and from one address.
  size_t unproved_limit = 256;
  size_t unproved_limit_per_address = 32;
  /// For TCP rails: "auto", "system", or a name that the kernel knows (congestion_control.h).
  std::string congestion_control{kAutomaticCongestionControl};
  /// Empty: DiscoverRails of the first address listened at. At most kMaxRails, and kMaxConnections.
  std::vector<RailOptions> rails;
  /// Opens the sockets that are listened at; nullptr: none was passed on to this program.
  std::shared_ptr<ListeningSockets> listening = nullptr;
  /// Versions of the protocol that are spoken.
  VersionRange versions = kClusterVersions;
};

struct PeerInfo {
  InstanceId instance{};                ///< Number of the daemon, different after each start.
  uint32_t version = 0;                 ///< Of the protocol, on this link.
  NetworkAddress address;               ///< The other end of the control link.
  size_t rails = 0;                     ///< Rails that PostSend may use: 0 to rails - 1.
  std::vector<std::string> rail_names;  ///< "eth0 10.0.0.1 - 10.0.0.2:40123, 8 connections"
};

/// Receives events of peers. Called only from Progress, so it may call anything but Progress.
class TransportEvents {
 public:
  /// A daemon has proved the key and its rails are connected, whichever side began.
  virtual void OnPeerUp(PeerId peer, const PeerInfo& info) = 0;
  /// The peer is gone for good; if it comes back it gets another id. `reason` is for the operator
  /// only: it contains addresses. All posted operations with it end with kRemoteError, most before
  /// this call. Those whose buffers a network card may still touch end when it no longer can.
  virtual void OnPeerLost(PeerId peer, const std::string& reason) = 0;
  /// Delivers a message that the other side gave to SendControl, in order. Valid during the call.
  virtual void OnControl(PeerId peer, std::span<const std::byte> message) = 0;

 protected:
  ~TransportEvents() = default;
};

struct TransportCounters {
  uint64_t connections_accepted = 0;
  uint64_t connections_refused = 0;  ///< Among these, closed without proof.
  uint64_t connections_evicted = 0;  ///< Among these, closed because too many waited.
  uint64_t foreign_messages = 0;     ///< Dropped UCX messages, without the right token.
  size_t requests_under_way = 0;
  size_t arrivals_waiting = 0;  ///< Messages that came, or were offered, without a posted receive.
  size_t arrival_bytes = 0;     ///< Memory in these messages.
};

/// Keeps memory registered with the network cards. Must be destroyed before the transport.
class MemoryRegistration {
 public:
  virtual ~MemoryRegistration() = default;
};

/// Moves bytes between the daemons of different hosts.
///
/// Two daemons have one *control link*, over which they prove the cluster key to each other, agree
/// on rails, watch each other and exchange small messages in order; and one channel for each
/// *rail*, for messages that are addressed by tags and go from buffer to buffer.
///
/// Thread: one, the owner, which calls Progress repeatedly, or sleeps on fd() while Arm() says that
/// it may. Nothing blocks, and only Progress calls back. Posting and moving messages allocates
/// nothing once pools have grown.
class Transport {
 public:
  /// `events` must outlive the transport. Errors: kInvalidArgument for invalid options, a missing
  /// key among them; kSystemError.
  static Result<std::unique_ptr<Transport>> Create(TransportOptions options,
                                                   TransportEvents* events);
  /// Closes all links, which peers see at once. No completion is called any more.
  virtual ~Transport() = default;

  virtual const InstanceId& instance() const = 0;

  /// Accepts other daemons at `address`; port 0 lets the kernel choose. Returns the address with
  /// its port. The first call determines the rails where the options do not. Errors: kSystemError.
  virtual Result<NetworkAddress> Listen(const NetworkAddress& address) = 0;

  /// Finds or makes the link to the daemon at `address`; both sides may do so at once, and get one
  /// link. `done`, called once from Progress, gets the peer, after its OnPeerUp. On failure it gets
  /// kUnavailable or kRemoteError with the reason, for the operator, or kInvalidUsage for a daemon
  /// that speaks none of the versions. Tried once: the caller has to wait for daemons that start
  /// late.
  using ConnectDone = std::function<void(const Result<PeerId>&)>;
  virtual void Connect(const NetworkAddress& address, ConnectDone done) = 0;

  /// Ends the link, and tells the other side `reason`. OnPeerLost follows.
  virtual void Disconnect(PeerId peer, const std::string& reason) = 0;

  /// Sends a copy of at most kMaxControlBytes, reliably and in order while the link lasts. `sender`
  /// is on whose behalf: senders share the room for messages that a slow peer has not read, see
  /// ControlBacklog. Errors: kRemoteError for a peer that is gone; kInvalidArgument for too many
  /// bytes; kUnavailable if too much of this sender waits.
  virtual Status SendControl(PeerId peer, std::span<const std::byte> message,
                             ControlSender sender = kOwnMessages) = 0;

  /// Sends `bytes`, which must not change until `completion` is called: they were then handed on,
  /// but may not have arrived. Several sends with one tag are received in the order posted if they
  /// take the same rail by its first connection and are of like size; give each its own tag.
  /// Errors: kRemoteError for a peer that is gone, kInvalidArgument for a rail that is not there;
  /// `completion` is not called then.
  virtual Status PostSend(PeerId peer, RailChoice way, const MessageTag& tag,
                          std::span<const std::byte> bytes, Completion completion) = 0;

  /// Sets what tenants may send over a rail to a peer, for as long as the link lasts. Errors:
  /// kRemoteError for a peer that is gone, kInvalidArgument for a rail that is not there.
  virtual Status Limit(PeerId peer, size_t rail, const RailLimits& limits) = 0;

  /// Receives a message into `buffer`, over whichever rail it comes, whether it arrives earlier or
  /// later. Ends with kInvalidUsage if it is larger than the buffer, with kRemoteError if the other
  /// side cancelled it. Errors: those of PostSend.
  virtual Status PostReceive(PeerId peer, const MessageTag& tag, std::span<std::byte> buffer,
                             Completion completion) = 0;

  /// Ends all sends and receives of an operation with this peer: they complete with kInvalidUsage.
  /// The other side's parts end too, where they were under way. Messages of it that arrive later
  /// are dropped, so its number must not be used again.
  virtual void Cancel(PeerId peer, uint64_t operation) = 0;

  /// Pins memory for the network cards of RDMA rails, so that sends and receives in it need not.
  /// Does nothing for TCP. Errors: kSystemError when a card refuses.
  virtual Result<std::unique_ptr<MemoryRegistration>> RegisterMemory(
      std::span<std::byte> memory) = 0;

  /// Does what can be done now and calls back. Returns how much there was to do; 0 for nothing.
  virtual int Progress() = 0;

  /// Becomes readable when Progress has something to do, after Arm() has returned true.
  virtual int fd() const = 0;
  /// Returns whether the owner may sleep on fd(); to be called before. False: call Progress first.
  virtual bool Arm() = 0;

  virtual TransportCounters counters() const = 0;
  /// Returns the traffic of those of these peers that are there. Asks the kernel for each
  /// connection.
  virtual std::vector<LinkTraffic> Traffic(std::span<const PeerId> peers) const = 0;
  /// Returns the time by the monotonic clock, in nanoseconds, when bytes of whatever kind last
  /// arrived from the peer, as far as the last tick saw; 0 for a peer that is gone.
  virtual uint64_t HeardNs(PeerId peer) const = 0;
};

}  // namespace harmonaize::transport
