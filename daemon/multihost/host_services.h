#pragma once

#include <cstdint>
#include <functional>

#include "daemon/communicator/communicator_services.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class Fabrics;
class NetworkOperations;
class StartGate;

/// Hears of ranks of other hosts. Thread: engine.
class RemoteRankObserver {
 public:
  /// The rank has left the communicator, or its host is lost.
  virtual void OnRankLeft(Communicator& communicator, int rank) = 0;

 protected:
  ~RemoteRankObserver() = default;
};

/// The services of the daemon that a communicator over several hosts uses. All of them outlive the
/// communicators. `cluster` is nullptr where this host stands alone.
struct HostServices : CommunicatorServices {
  Cluster* cluster = nullptr;
  Fabrics* fabrics = nullptr;
  NetworkOperations* network = nullptr;
  StartGate* start_gate = nullptr;
  RemoteRankObserver* ranks = nullptr;
  /// Has the engine look for late ranks at this time of the monotonic clock, or before.
  std::function<void(uint64_t at_ns)> tick_by = [](uint64_t) {};
};

}  // namespace harmonaize::daemon
