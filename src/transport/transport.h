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

struct TransportOptions {
  /// What all daemons of the cluster share.
  ClusterKey key;
  /// Without a key everybody who can reach the port is believed, other users of this host included:
  /// for laboratories. There is no exception for loopback.
  bool allow_unauthenticated = false;
  /// Silence after which a peer is taken for dead; a quarter more where streams may be moved and
  /// ways carry nothing. Looked at sixteen times in this time. 100 ms or more.
  uint64_t dead_after_ns = 2'000'000'000;
  /// For all of Connect: connection, proof, agreement, rails. On a way so crowded that every second
  /// packet is lost, that is a matter of seconds.
  uint64_t connect_timeout_ns = 10'000'000'000;
  uint64_t proof_timeout_ns = 2'000'000'000;
  /// Connections accepted that have not proved the key: in all, and from one address.
  size_t unproved_limit = 256;
  size_t unproved_limit_per_address = 32;
  /// Of TCP rails: "auto", "system", or a name that the kernel knows (congestion_control.h).
  std::string congestion_control{kAutomaticCongestionControl};
  /// Empty: DiscoverRails of the first address listened at. At most kMaxRails, and kMaxConnections.
  std::vector<RailOptions> rails;
};

struct PeerInfo {
  InstanceId instance{};                ///< The daemon: another after each start.
  NetworkAddress address;               ///< The other end of the control link.
  size_t rails = 0;                     ///< That PostSend may use: 0 to rails - 1.
  std::vector<std::string> rail_names;  ///< "eth0 10.0.0.1 - 10.0.0.2:40123, 8 connections"
};

/// What happens at peers. Called from Progress alone, and so may call anything but Progress.
class TransportEvents {
 public:
  /// A daemon has proved the key and its rails are connected, whoever began.
  virtual void OnPeerUp(PeerId peer, const PeerInfo& info) = 0;
  /// The peer is gone for good; if it comes back it is another. `reason` is for the operator: it
  /// holds addresses. All posted operations with it end with kRemoteError, most before this call;
  /// those whose buffers a network card may still touch, when it no longer can.
  virtual void OnPeerLost(PeerId peer, const std::string& reason) = 0;
  /// What the other side gave to SendControl; in order. Valid during the call.
  virtual void OnControl(PeerId peer, std::span<const std::byte> message) = 0;

 protected:
  ~TransportEvents() = default;
};

struct TransportCounters {
  uint64_t connections_accepted = 0;
  uint64_t connections_refused = 0;  ///< Of those: without proof.
  uint64_t connections_evicted = 0;  ///< Of those: because too many waited.
  uint64_t foreign_messages = 0;     ///< Over UCX, without the right token: dropped.
  size_t requests_under_way = 0;
  size_t arrivals_waiting = 0;  ///< Messages that came, or were offered, and nobody posted for.
  size_t arrival_bytes = 0;     ///< Memory in those.
};

/// Keeps memory registered with the network cards. Before the transport it goes.
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
/// For one thread, the owner, which calls everything here. It calls Progress again and again, or
/// sleeps on fd() while Arm() says that it may. Nothing blocks; no call but Progress calls back.
/// Posting and moving messages allocates nothing once pools have grown.
class Transport {
 public:
  /// Errors: kInvalidArgument for options that cannot be, a missing key among them; kSystemError.
  /// `events` must outlive the transport.
  static Result<std::unique_ptr<Transport>> Create(TransportOptions options,
                                                   TransportEvents* events);
  /// Closes all links; peers see that at once. No completion is called any more.
  virtual ~Transport() = default;

  virtual const InstanceId& instance() const = 0;

  /// Accepts other daemons at `address`; port 0 lets the kernel choose. Returns the address with
  /// its port. The first call decides on the rails where the options do not. Errors: kSystemError.
  virtual Result<NetworkAddress> Listen(const NetworkAddress& address) = 0;

  /// Finds or makes the link to the daemon at `address`; both sides may do so at once, and get one
  /// link. `done`, called once from Progress, gets the peer, after its OnPeerUp, or kUnavailable or
  /// kRemoteError with the reason, for the operator. Tried once; daemons that start late are the
  /// caller's to wait for.
  using ConnectDone = std::function<void(const Result<PeerId>&)>;
  virtual void Connect(const NetworkAddress& address, ConnectDone done) = 0;

  /// Ends the link; the other side is told `reason`. OnPeerLost follows.
  virtual void Disconnect(PeerId peer, const std::string& reason) = 0;

  /// Sends at most kMaxControlBytes, reliably and in order while the link lasts. Copies them.
  /// Errors: kRemoteError for a peer that is gone; kInvalidArgument for too many bytes.
  virtual Status SendControl(PeerId peer, std::span<const std::byte> message) = 0;

  /// Sends `bytes`, which must stay as they are until `completion`; that it was called means that
  /// they were handed on, not that they have arrived. Several sends with one tag are received in
  /// the order posted if they take the same rail by its first connection and are of like size; give
  /// each its own tag.
  /// Errors: kRemoteError for a peer that is gone, kInvalidArgument for a rail that is not there;
  /// then `completion` is not called.
  virtual Status PostSend(PeerId peer, RailChoice way, const MessageTag& tag,
                          std::span<const std::byte> bytes, Completion completion) = 0;

  /// What tenants may send over a rail to a peer from now on, as long as the link lasts.
  /// Errors: kRemoteError for a peer that is gone, kInvalidArgument for a rail that is not there.
  virtual Status Limit(PeerId peer, size_t rail, const RailLimits& limits) = 0;

  /// Receives a message into `buffer`, over whatever rail it comes, before or after it came. Ends
  /// with kInvalidUsage if it is larger than the buffer, with kRemoteError if the other side
  /// cancelled it. Errors: as PostSend.
  virtual Status PostReceive(PeerId peer, const MessageTag& tag, std::span<std::byte> buffer,
                             Completion completion) = 0;

  /// Ends all sends and receives of an operation with this peer: they complete with kInvalidUsage.
  /// The other side's parts end too, where they were under way. What comes for it later is dropped,
  /// so its number must not be used again.
  virtual void Cancel(PeerId peer, uint64_t operation) = 0;

  /// Pins memory for the network cards of RDMA rails, so that sends and receives in it need not.
  /// Does nothing for TCP. Errors: kSystemError when a card refuses.
  virtual Result<std::unique_ptr<MemoryRegistration>> RegisterMemory(
      std::span<std::byte> memory) = 0;

  /// Does what can be done now and calls back. How much there was to do; 0 for nothing.
  virtual int Progress() = 0;

  /// Readable when Progress has something to do, after Arm() has returned true.
  virtual int fd() const = 0;
  /// Before sleeping on fd(): whether the owner may. False: call Progress first.
  virtual bool Arm() = 0;

  virtual TransportCounters counters() const = 0;
  /// Of these peers, of those that are there. A question to the kernel for each connection.
  virtual std::vector<LinkTraffic> Traffic(std::span<const PeerId> peers) const = 0;
};

}  // namespace harmonaize::transport
