#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/address.h"

namespace harmonaize::transport {

/// Sockets at which the daemon listens for TCP connections. A service manager, or the program that
/// this one replaces, may have opened some of them and passed them on: nobody else can take their
/// ports while no daemon runs. Thread: any.
class ListeningSockets {
 public:
  /// Takes over what was passed on. Descriptors that are no listening TCP sockets are closed.
  explicit ListeningSockets(std::vector<FileDescriptor> passed_on = {});
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;

  /// Sets options of a socket before its first connection.
  using Prepare = std::function<void(int socket)>;
  /// Returns a socket that listens at `address` and makes nobody wait: one that was passed on for
  /// this address and port, or a new one. Port 0 lets the kernel choose. Errors name the address:
  /// kUnavailable where another process has the port, which may be free later; kSystemError.
  Result<FileDescriptor> Listen(const NetworkAddress& address, const Prepare& prepare = {});

  /// Closes what was passed on and not asked for, and returns the addresses.
  std::vector<NetworkAddress> CloseUnused();
  /// Returns copies of the sockets whose port the caller has chosen, for the next program. They
  /// listen on even where the users have closed their own.
  std::vector<FileDescriptor> TakeCopies();

 private:
  struct PassedOn {
    NetworkAddress address;
    FileDescriptor socket;
  };

  FileDescriptor TakePassedOn(const NetworkAddress& address);

  std::mutex mutex_;
  std::vector<PassedOn> passed_on_;
  std::vector<FileDescriptor> copies_;
};

/// Returns the address to which a socket is bound; empty for a socket of another kind.
NetworkAddress BoundAddress(int socket);

}  // namespace harmonaize::transport
