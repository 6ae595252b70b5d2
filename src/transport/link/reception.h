#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/address.h"
#include "src/transport/link/handshake.h"
#include "src/transport/tcp/poller.h"

namespace harmonaize::transport {

/// A connection whose other end has the cluster key.
struct ProvedConnection {
  FileDescriptor socket;
  NetworkAddress remote;
  Handshake::Role role = Handshake::Role::kAcceptor;
  Greeting ours;
  Greeting theirs;
  uint64_t cookie = 0;  ///< Cookie passed to Connect; 0 for an accepted connection.
  /// For an accepted connection: our own proof, which tells the other side that it is admitted.
  /// After it the other side may speak over other connections, so the thread that must know of this
  /// one first sends it.
  std::vector<std::byte> answer{};

  /// Sends the answer; returns false when the connection is lost.
  bool Answer();
};

struct ReceptionLimits {
  uint64_t proof_timeout_ns = 2'000'000'000;
  /// Most accepted connections that have not proved the key, in all and from one address. Beyond
  /// that the oldest is closed, so connections held open without a proof are lost.
  size_t unproved = 256;
  size_t unproved_of_one_address = 32;
  /// Versions of the protocol; a connection without one of these is refused.
  VersionRange versions = kClusterVersions;
};

struct ReceptionCounters {
  uint64_t accepted = 0;
  uint64_t refused = 0;  ///< Among these, those without the right proof in time.
  uint64_t evicted = 0;  ///< Among these, those closed to make room.
};

/// Options of a connection's socket.
struct SocketOptions {
  NetworkAddress bind;           ///< Empty: the kernel chooses.
  int traffic_class = -1;        ///< IP_TOS, IPV6_TCLASS; negative: left alone.
  unsigned user_timeout_ms = 0;  ///< TCP_USER_TIMEOUT; 0: left alone.
  /// TCP_CONGESTION; empty: left alone. Accepted connections inherit it from their listener.
  std::string congestion_control = {};
};

/// Sets the options that all our sockets have (no delay of small segments), and `options`.
void ApplySocketOptions(int socket, int family, const SocketOptions& options);

/// Listens, connects, and admits no connection without a proof of the cluster key. It reads no more
/// than the handshake from an unproved connection. Thread: one, the owner's. The engine owns the
/// reception of the connections that a daemon makes; FrontDoor's thread owns that of accepted ones.
class Reception {
 public:
  class Owner {
   public:
    virtual void OnProved(ProvedConnection connection) = 0;
    /// Called when a Connect has failed, never from within Connect. `no_way`: nobody answered
    /// there, so another way may still work.
    virtual void OnConnectFailed(uint64_t cookie, const Status& reason, bool no_way) = 0;

   protected:
    ~Owner() = default;
  };

  /// All pointers must outlive the reception.
  Reception(Poller* poller, Owner* owner, const ClusterKey* key, const InstanceId& instance,
            const ReceptionLimits& limits);
  ~Reception();

  /// Accepts connections at a socket that listens, whose connections get these options. Errors:
  /// kSystemError.
  Status AcceptAt(FileDescriptor listening, const SocketOptions& options);

  /// Begins a connection whose purpose is in `greeting`. OnProved or OnConnectFailed follows with
  /// `cookie`, which is not 0, within `timeout_ns`.
  void Connect(const NetworkAddress& remote, const SocketOptions& options, const Greeting& greeting,
               uint64_t cookie, uint64_t timeout_ns);

  /// Drops a Connect under way; the owner is not called for it any more.
  void Forget(uint64_t cookie);

  /// Ends connections that took too long, and reports those that failed at once. To be called every
  /// few hundred milliseconds, and when HasNews.
  void Tick(uint64_t now_ns);
  bool HasNews() const { return !failed_.empty(); }
  /// Returns whether there is anything for Tick to do, now or later.
  bool busy() const { return !pending_.empty() || !gone_.empty() || HasNews(); }

  /// Thread: any.
  ReceptionCounters counters() const {
    return {.accepted = accepted_.load(std::memory_order_relaxed),
            .refused = refused_.load(std::memory_order_relaxed),
            .evicted = evicted_.load(std::memory_order_relaxed)};
  }

 private:
  class Listener;
  class Pending;
  struct Failure {
    uint64_t cookie;
    Status reason;
    bool no_way;
  };

  void Accept(Listener* listener);
  void MakeRoom(const NetworkAddress& remote);
  void OnAccepted(FileDescriptor socket, const NetworkAddress& remote,
                  const SocketOptions& options);
  void Drop(Pending* pending, const Status& reason, bool no_way = false);
  void Finish(Pending* pending);
  void Remove(Pending* pending);

  Poller* poller_;
  Owner* owner_;
  const ClusterKey* key_;
  InstanceId instance_;
  ReceptionLimits limits_;
  std::atomic<uint64_t> accepted_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> evicted_{0};
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::list<std::unique_ptr<Pending>> pending_;  // oldest first
  std::list<std::unique_ptr<Pending>> gone_;     // freed at the next Tick or Accept
  std::vector<Failure> failed_;
};

}  // namespace harmonaize::transport
