#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/link/reception.h"
#include "src/transport/listening_sockets.h"
#include "src/transport/tcp/poller.h"

namespace harmonaize::transport {

/// Accepts connections, on a thread of its own, because everybody on the network can make them,
/// thousands a second. The owner's thread sees only those that have proved the cluster key.
class FrontDoor final : public Poller::Handler, private Reception::Owner {
 public:
  /// Calls the owner's OnProved from `poller`, on its thread. All pointers must outlive the door.
  FrontDoor(Poller* poller, Reception::Owner* owner, const ClusterKey* key,
            const InstanceId& instance, const ReceptionLimits& limits,
            std::shared_ptr<ListeningSockets> sockets);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  /// Accepts connections at `address`; port 0 lets the kernel choose. Returns the address with its
  /// port. Errors: those of ListeningSockets. The first call starts the thread.
  Result<NetworkAddress> Listen(const NetworkAddress& address, const SocketOptions& options);

  /// Thread: the owner's.
  ReceptionCounters counters() const;

  void OnReady(uint32_t events) override;

 private:
  Status Start();
  void Run();
  void WaitForEvents();
  void ServeOnce();
  void HandOver();
  // Thread: the door's own.
  void OnProved(ProvedConnection connection) override;
  void OnConnectFailed(uint64_t, const Status&, bool) override {}

  Poller* const owners_poller_;
  Reception::Owner* const owner_;
  const ClusterKey* const key_;
  const InstanceId instance_;
  const ReceptionLimits limits_;
  const std::shared_ptr<ListeningSockets> sockets_;

  /// Guards the state that the thread works with, because Listen is called by the owner's thread.
  std::mutex mutex_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Reception> reception_;
  std::vector<ProvedConnection> just_proved_;
  bool has_unproved_ = false;  ///< Whether the last look left any unproved; the door's thread only.
  uint64_t next_tick_ns_ = 0;

  std::mutex proved_mutex_;
  std::vector<ProvedConnection> proved_;  ///< Connections for the owner.
  FileDescriptor news_;                   ///< An eventfd: something is in `proved_`.

  FileDescriptor stop_;  ///< An eventfd.
  std::thread thread_;
};

}  // namespace harmonaize::transport
