#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/transfer/idle_link.h"
#include "daemon/transfer/secure_socket.h"
#include "daemon/transfer/transfer_wire.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {

/// Memory that other daemons may read. Whoever replaces what lies in it sets `is_void` before.
struct TransferSource {
  std::shared_ptr<const void> keeper;  ///< Keeps the descriptor open.
  int descriptor = -1;
  uint64_t bytes = 0;
  std::shared_ptr<const std::atomic<bool>> is_void;
  bool when_idle = false;  ///< It gives way to tenants' traffic.
  uint32_t tenant = 0;     ///< TenantIdentity::number of its owner.
};

/// Gives bytes of sources to daemons that have a ticket for them. It listens at a port of its own
/// from the first offer on, and deals with each connection on a thread. The memory is read by
/// system calls, so nothing that its owner does to its pages is a fault of the daemon's. Thread:
/// any.
class PartServer {
 public:
  struct Services {
    transport::NetworkAddress address;  ///< At which this host is reached; the port does not count.
    std::shared_ptr<const SecureSettings> settings;
    IdleLink* idle_link = nullptr;  ///< Outlives the server.
  };

  explicit PartServer(Services services) : services_(std::move(services)) {}
  /// Ends all connections.
  ~PartServer();
  PartServer(const PartServer&) = delete;
  PartServer& operator=(const PartServer&) = delete;

  /// Where a source can be read.
  struct Offer {
    uint16_t port = 0;
    TransferTicket ticket{};
  };
  /// Offers a source, until no connection has made use of that for a minute. Errors: kSystemError
  /// if nothing can be listened at; kInvalidUsage if its owner has as many offers as it may.
  Result<Offer> Add(TransferSource source);

 private:
  struct Offered {
    std::shared_ptr<const TransferSource> source;
    uint64_t until_ns = 0;
  };
  struct Guest {
    std::thread thread;
    std::atomic<bool> has_ended{false};
    std::mutex mutex;
    SecureSocket* socket = nullptr;  // under mutex; nullptr: not yet, or no more
    bool is_cut = false;             // under mutex
    /// The connection, until it has proved the key.
    FileDescriptor unproven;  // under mutex
    std::string host = {};    ///< From which it comes.
  };
  class Seat;

  Status Listen();
  void AcceptAll();
  void AcceptOne();
  void MakeRoomForStranger(const std::string& host);
  void JoinEnded();
  void Serve(Guest* guest, FileDescriptor socket);
  void ServeRequests(SecureSocket* socket);
  Status ServeRange(const TransferSource& source, const TransferRequest& request,
                    SecureSocket* socket);
  void AwaitPause(const TransferSource& source) const;
  std::shared_ptr<const TransferSource> Find(const TransferTicket& ticket);

  const Services services_;
  std::mutex mutex_;
  std::map<TransferTicket, Offered> offered_;  // under mutex_
  std::map<uint32_t, size_t> seated_;          // under mutex_; connections by tenant, with a ticket
  size_t all_seated_ = 0;                      // under mutex_
  FileDescriptor listener_;                    // under mutex_ until the thread runs
  uint16_t port_ = 0;                          // under mutex_
  FileDescriptor stop_;                        ///< An eventfd.
  std::atomic<bool> stopping_{false};
  std::list<Guest> guests_;  ///< Thread: the accepting one, and the destructor after its end.
  std::thread thread_;
};

}  // namespace harmonaize::daemon
