#pragma once

namespace harmonaize {
class WorkEngine;
}  // namespace harmonaize

namespace harmonaize::daemon {

class Background;
class Cluster;
class EventLoop;
class Fabrics;
struct Config;

/// What plans use of the daemon. All of it outlives them.
struct PlanServices {
  const Config* config = nullptr;
  EventLoop* loop = nullptr;  ///< The engine's loop.
  Background* background = nullptr;
  Cluster* cluster = nullptr;
  Fabrics* fabrics = nullptr;
  WorkEngine* work = nullptr;
};

}  // namespace harmonaize::daemon
