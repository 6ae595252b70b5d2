#pragma once

#include <memory>

#include "daemon/access/engine_gate.h"

namespace harmonaize::daemon {

class Background;
class EntityTags;
class EventBus;
class JobSnapshots;
class TokenStore;

/// The parts of the daemon that routes of the HTTP interface use. They outlive the HTTP server.
/// Thread: any.
struct ApiServices {
  std::shared_ptr<EngineGate> gate;  ///< The way to the engine.
  EventBus* bus = nullptr;
  JobSnapshots* jobs = nullptr;     ///< As JobReport makes them.
  JobSnapshots* flights = nullptr;  ///< As FlightReport makes them.
  const EntityTags* tags = nullptr;
  std::shared_ptr<TokenStore> tokens;
  Background* work = nullptr;  ///< For what takes long.
};

}  // namespace harmonaize::daemon
