#pragma once

#include "daemon/multihost/plan_services.h"

namespace harmonaize::daemon {

class Communicator;
class NetworkOperations;
class StartGate;
class WaitingCount;

/// Hears of ranks of other hosts. Thread: engine.
class RemoteRankObserver {
 public:
  /// The rank has left the communicator, or its host is lost.
  virtual void OnRankLeft(Communicator& communicator, int rank) = 0;

 protected:
  ~RemoteRankObserver() = default;
};

/// What a communicator that spans hosts uses of the daemon, beyond CommunicatorServices. All of it
/// outlives the communicators.
struct HostServices {
  PlanServices plans;
  WaitingCount* waiting = nullptr;
  NetworkOperations* network = nullptr;
  StartGate* start_gate = nullptr;
  RemoteRankObserver* ranks = nullptr;
};

}  // namespace harmonaize::daemon
